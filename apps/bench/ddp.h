#pragma once

namespace CLI {
class App;
}

namespace pursuit::bench {

// `bench ddp`: what of the communication of data-parallel training stays exposed, by simulation.
void add_ddp_command(CLI::App& app);

}  // namespace pursuit::bench

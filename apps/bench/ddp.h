#pragma once

namespace CLI {
class App;
}

namespace pursuit::bench {

// Adds `bench ddp`, which simulates how much communication of data-parallel training is exposed (not
// overlapped with computation).
void add_ddp_command(CLI::App& app);

}  // namespace pursuit::bench

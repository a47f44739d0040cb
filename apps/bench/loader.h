#pragma once

namespace CLI {
class App;
}

namespace pursuit::bench {

// Adds `bench loader`, which times the stages between picture files and batches.
void add_loader_command(CLI::App& app);

}  // namespace pursuit::bench

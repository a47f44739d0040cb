#pragma once

namespace CLI {
class App;
}

namespace pursuit::bench {

// Adds `bench text`, which times the numbering of a drawn text.
void add_text_command(CLI::App& app);

}  // namespace pursuit::bench

#pragma once

namespace CLI {
class App;
}

namespace pursuit::apps {

// Adds `corrupt`, which writes pictures with the corruptions of ImageNet-C. `code` is set to its exit code.
void add_corrupt_command(CLI::App& app, int& code);

}  // namespace pursuit::apps

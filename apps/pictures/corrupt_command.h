#pragma once

namespace CLI {
class App;
}

namespace pursuit::apps {

// `corrupt` writes pictures under the corruptions of ImageNet-C. `code` becomes its exit code.
void add_corrupt_command(CLI::App& app, int& code);

}  // namespace pursuit::apps

#include "apps/pictures/corrupt_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/command/choice.h"
#include "apps/command/options.h"
#include "apps/pictures/frost.h"
#include "apps/pictures/picture_files.h"
#include "data/corruptions.h"
#include "data/resize.h"
#include "engine/base/error.h"

namespace pursuit::apps {

namespace {

const std::vector<std::string> severity_names = {"1", "2", "3", "4", "5"};

struct CorruptOptions {
  std::vector<std::string> images, corruptions = {"all"}, severities = {"all"};
  std::string out, frost;  // folders
  int size = 0;            // resize and crop with data::imagenet_view first; 0: do not
  uint64_t seed = 0;
};

int corrupt(const CorruptOptions& options) {
  namespace fs = std::filesystem;
  const std::vector<std::string> names =
      chosen("--corruption", options.corruptions, data::corruption_names());
  const std::vector<std::string> severities = chosen("--severity", options.severities, severity_names);
  constexpr int largest = 4096;
  if (options.size < 0 || options.size > largest)
    fail("corrupt", fmt::format("--size is {}, need 0 (pictures as they are) to {}", options.size, largest));
  const std::vector<data::Image> frost = frost_overlays(options.frost, names);
  const std::vector<std::string> files = picture_files(options.images);
  fs::create_directories(options.out);

  UniqueStems name_of;
  return for_each_file(files, [&](const std::string& file, int64_t number) {
    data::Image picture = data::read_image(file);
    if (options.size > 0) picture = data::imagenet_view(picture, options.size, data::Filter::bilinear);
    const std::string stem = name_of(file);
    for (const std::string& name : names)
      for (const std::string& severity : severities) {
        const int level = std::stoi(severity);
        const uint64_t seed = data::corruption_seed(options.seed, name, level, number);
        data::write_png((fs::path(options.out) / fmt::format("{}-{}-{}.png", stem, name, severity)).string(),
                        data::corrupt(picture, name, level, seed, frost));
      }
  });
}

}  // namespace

void add_corrupt_command(CLI::App& app, int& code) {
  const auto c = std::make_shared<CorruptOptions>();
  CLI::App* command =
      app.add_subcommand("corrupt", "Apply the corruptions of ImageNet-C to pictures and write PNG files");
  command->add_option("images", c->images, "JPEG or PNG files, or folders of them")->required();
  add_names(*command, "--corruption", c->corruptions, data::corruption_names(),
            "Corruptions: all, or names such as gaussian_noise,fog")
      ->capture_default_str();
  add_names(*command, "--severity", c->severities, severity_names, "Severities: all, or numbers from 1 to 5")
      ->capture_default_str();
  command->add_option("--out", c->out, "Folder for the pictures, which are named NAME-fog-3.png")->required();
  command
      ->add_option(
          "--size", c->size,
          "First resize the shorter side to 256/224 of this size and crop the centre, as ImageNet-C does "
          "with 224 (0: corrupt pictures as they are)")
      ->capture_default_str();
  command->add_option("--frost", c->frost, "Folder with frost overlays (default: drawn ones)");
  add_number(*command, "--seed", c->seed, "Seed of the noise, which differs from picture to picture",
             any_seed);
  command->callback([&code, c] { code = corrupt(*c); });
}

}  // namespace pursuit::apps

#include <fmt/format.h>

#include <filesystem>

#include "apps/classify/commands.h"
#include "apps/common/choice.h"
#include "apps/common/frost.h"
#include "apps/common/picture_files.h"
#include "data/corruptions.h"
#include "data/resize.h"
#include "engine/core/error.h"

namespace pursuit::classify {

int corrupt(const CorruptOptions& options) {
  namespace fs = std::filesystem;
  const std::vector<std::string> names =
      apps::chosen("--corruption", options.corruptions, data::corruption_names());
  const std::vector<std::string> severities =
      apps::chosen("--severity", options.severities, {"1", "2", "3", "4", "5"});
  constexpr int largest = 4096;
  if (options.size < 0 || options.size > largest)
    fail("corrupt", fmt::format("--size is {}, need 0 (pictures as they are) to {}", options.size, largest));
  const std::vector<data::Image> frost = apps::frost_overlays(options.frost, names);
  const std::vector<std::string> files = apps::picture_files(options.images);
  fs::create_directories(options.out);

  apps::UniqueStems name_of;
  return apps::for_each_file(files, [&](const std::string& file, int64_t number) {
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

}  // namespace pursuit::classify

#include "apps/pictures/predictions.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "apps/pictures/picture_files.h"
#include "apps/study/run_commands.h"
#include "apps/terminal/print.h"

namespace pursuit::apps {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

void add_picture_predict_options(CLI::App& command, PicturePredictOptions& o, const LoadChoices& choices) {
  add_load_options(command, o.checkpoint, o.load, choices);
  command.add_option("images", o.images, "JPEG or PNG files, or folders of them")->required();
  command.add_option("--out", o.out, "Folder for the pictures (default: predictions, beside the checkpoint)");
  command.add_flag("--json", o.json, "Print JSON");
}

int predict_pictures(
    const PicturePredictOptions& options,
    const std::function<PicturePrediction(const std::string&, const std::string&)>& predict_one) {
  const std::string out = folder_for(options.out, options.checkpoint, "predictions");
  fs::create_directories(out);
  Json report = Json::array();
  UniqueStems name_of;
  const int code = for_each_file(
      picture_files(options.images),
      [&](const std::string& file, int64_t) {
        const PicturePrediction p = predict_one(file, (fs::path(out) / name_of(file)).string());
        if (!options.json) {
          print("{}\n{}{}\n\n", file, Lines{p.text}, p.files);
          return;
        }
        report.push_back({{"image", file}});
        report.back().update(p.fields);
      },
      [&](const std::string& file, const std::string& why) {
        report.push_back({{"image", file}, {"error", why}});
      });
  // JSON must be UTF-8, but file names may not be.
  if (options.json) print("{}\n", Lines{report.dump(2, ' ', false, Json::error_handler_t::replace)});
  return code;
}

}  // namespace pursuit::apps

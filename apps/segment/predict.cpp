#include <fmt/format.h>

#include <filesystem>

#include "apps/pictures/mask_picture.h"
#include "apps/pictures/picture_files.h"
#include "apps/run/json.h"
#include "apps/segment/commands.h"
#include "apps/terminal/print.h"
#include "apps/terminal/table.h"
#include "data/orientation.h"

namespace pursuit::segment {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

}  // namespace

int predict(const PredictOptions& options) {
  const auto loaded = apps::load_model<Config>(options.checkpoint, options.load);
  Config config = options.views.of(loaded.config);
  if (options.batch_size > 0) config.eval_batch_size = options.batch_size;
  const Predictor predictor = predictor_of(*loaded.model, config);
  const std::vector<std::string>& classes = config.classes;
  const std::vector<data::Rgb>& colours = config.colours;
  const std::string out = apps::folder_for(options.out, options.checkpoint, "predictions");
  fs::create_directories(out);

  Json report = Json::array();
  apps::UniqueStems name_of;
  const auto predict_one = [&](const std::string& file, int64_t) {
    const data::Image picture = data::read_upright(file), labels = predictor.classes_of(picture);
    const data::Image mask = apps::colour_mask(labels, colours);
    const std::string base = (fs::path(out) / name_of(file)).string();
    data::write_png(base + "-classes.png", labels);
    data::write_png(base + "-mask.png", mask);
    data::write_png(base + "-overlay.png", apps::overlay(picture, mask, options.opacity));
    data::write_png(base + "-legend.png", apps::legend(labels, classes, colours));
    Json shares = Json::array();
    apps::Table table{{"class", "share of pixels"}, {}};
    for (const apps::ClassShare& s : apps::class_shares(labels, int64_t(classes.size()))) {
      table.rows.push_back({classes[s.index], fmt::format("{:.1f} %", 100 * s.share)});
      shares.push_back({{"class", classes[s.index]}, {"index", s.index}, {"share", s.share}});
    }
    if (options.json)
      report.push_back({{"image", file},
                        {"classes", base + "-classes.png"},
                        {"mask", base + "-mask.png"},
                        {"overlay", base + "-overlay.png"},
                        {"legend", base + "-legend.png"},
                        {"shares", shares}});
    else
      apps::print("{}\n{}pictures: {}-mask.png, -overlay.png, -legend.png; class numbers: -classes.png\n\n",
                  file, apps::Lines{apps::to_text(table)}, base);
  };
  const int code = apps::for_each_file(apps::picture_files(options.images), predict_one,
                                       [&](const std::string& file, const std::string& why) {
                                         report.push_back({{"image", file}, {"error", why}});
                                       });
  // File names need not be UTF-8, JSON must be.
  if (options.json)
    apps::print("{}\n", apps::Lines{report.dump(2, ' ', false, Json::error_handler_t::replace)});
  return code;
}

}  // namespace pursuit::segment

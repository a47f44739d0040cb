#include <fmt/format.h>

#include "apps/pictures/mask_picture.h"
#include "apps/segment/commands.h"
#include "apps/terminal/table.h"
#include "data/orientation.h"

namespace pursuit::segment {

int predict(const PredictOptions& options) {
  const auto loaded = apps::load_model<Config>(options.checkpoint, options.load);
  Config config = options.views.of(loaded.config);
  if (options.batch_size > 0) config.eval_batch_size = options.batch_size;
  Predictor predictor = predictor_of(*loaded.model, config);
  predictor.lower = "--batch-size, or the picture's size with --short-side";
  const std::vector<std::string>& classes = config.classes;
  const std::vector<data::Rgb>& colours = config.colours;
  return apps::predict_pictures(options, [&](const std::string& file, const std::string& base) {
    const data::Image picture = data::read_upright(file, {config.jpeg_decoder}),
                      labels = predictor.classes_of(picture);
    const data::Image mask = apps::colour_mask(labels, colours);
    data::write_png(base + "-classes.png", labels);
    data::write_png(base + "-mask.png", mask);
    data::write_png(base + "-overlay.png", apps::overlay(picture, mask, options.opacity));
    data::write_png(base + "-legend.png", apps::legend(labels, classes, colours));
    auto shares = nlohmann::ordered_json::array();
    apps::Table table{{"class", "share of pixels"}, {}};
    for (const apps::ClassShare& s : apps::class_shares(labels, int64_t(classes.size()))) {
      table.rows.push_back({classes[s.index], fmt::format("{:.1f} %", 100 * s.share)});
      shares.push_back({{"class", classes[s.index]}, {"index", s.index}, {"share", s.share}});
    }
    return apps::PicturePrediction{
        .text = apps::to_text(table),
        .files = fmt::format("pictures: {}-mask.png, -overlay.png, -legend.png; class numbers: -classes.png",
                             base),
        .fields = {{"classes", base + "-classes.png"},
                   {"mask", base + "-mask.png"},
                   {"overlay", base + "-overlay.png"},
                   {"legend", base + "-legend.png"},
                   {"shares", shares}}};
  });
}

}  // namespace pursuit::segment

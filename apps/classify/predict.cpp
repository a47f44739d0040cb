#include <fmt/format.h>

#include <algorithm>

#include "apps/classify/commands.h"
#include "apps/classify/pipeline.h"
#include "apps/page/heatmap.h"
#include "apps/terminal/table.h"
#include "data/orientation.h"

namespace pursuit::classify {

namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Prediction& p, const Config& config, size_t top) {
  Json list = Json::array();
  for (size_t i = 0; i < top; ++i) {
    const size_t c = size_t(p.ranking[i]);
    list.push_back({{"class", config.classes[c]},
                    {"index", c},
                    {"probability", p.probabilities[c]},
                    {"logit", p.logits[c]}});
  }
  return list;
}

std::string to_text(const Prediction& p, const Config& config, size_t top) {
  apps::Table table{{"class", "probability"}, {}};
  for (size_t i = 0; i < top; ++i) {
    const size_t c = size_t(p.ranking[i]);
    table.rows.push_back(
        {shown_class(config, config.classes[c]), fmt::format("{:.2f} %", 100 * p.probabilities[c])});
  }
  return apps::to_text(table);
}

}  // namespace

int predict(const PredictOptions& options) {
  const LoadedModel loaded = apps::load_model<Config>(options.checkpoint, options.load);
  const int64_t blocks = class_blocks(loaded.config);
  if (!attends(loaded.config) && options.block != PredictOptions().block)
    fail("predict", loaded.name + ": the model has no attention; leave --block out");
  if (attends(loaded.config) && (options.block < -blocks || options.block >= blocks))
    fail("predict", fmt::format("--block is {}, need {} to {}: the model has {} blocks with a class token",
                                options.block, -blocks, blocks - 1, blocks));
  const size_t top = std::min(size_t(options.top), loaded.config.classes.size());
  return apps::predict_pictures(options, [&](const std::string& file, const std::string& base) {
    const Prediction p =
        look_at(loaded, data::read_upright(file, {loaded.config.jpeg_decoder}), options.block);
    apps::PicturePrediction shown{.text = to_text(p, loaded.config, top), .files = "", .fields = {}};
    if (!p.attention.empty()) {
      const std::string picture = base + "-attention.png";
      data::write_png(picture, apps::attention_pair(p.view, p.attention, p.grid));
      shown.files = "attention: " + picture;
      shown.fields["attention"] = picture;
    }
    shown.fields["predictions"] = to_json(p, loaded.config, top);
    return shown;
  });
}

}  // namespace pursuit::classify

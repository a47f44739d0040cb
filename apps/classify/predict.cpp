#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/classify/attention_map.h"
#include "apps/classify/commands.h"
#include "apps/common/table.h"
#include "data/dataset.h"
#include "engine/parallel.h"

namespace pursuit::classify {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Folders stand for the pictures in them.
std::vector<std::string> picture_files(const std::vector<std::string>& given) {
  std::vector<std::string> files;
  for (const std::string& name : given) {
    if (!fs::is_directory(name)) {
      files.push_back(name);
      continue;
    }
    const size_t before = files.size();
    for (const std::string& file : data::list_folder(name).files)
      if (data::is_image_file(file)) files.push_back((fs::path(name) / file).string());
    if (files.size() == before) fail("predict", name + ": the folder holds no JPEG or PNG pictures");
  }
  return files;
}

// <out>/<stem>-attention.png; pictures of the same name from several folders get a number.
std::string picture_path(const PredictOptions& options, const std::string& image,
                         std::set<std::string>& taken) {
  const std::string stem = fs::path(image).stem().string();
  std::string name = stem;
  for (int i = 2; !taken.insert(name).second; ++i) name = fmt::format("{}-{}", stem, i);
  return (fs::path(options.out) / (name + "-attention.png")).string();
}

Json to_json(const Prediction& p, const std::vector<std::string>& classes, size_t top) {
  Json list = Json::array();
  for (size_t i = 0; i < top; ++i) {
    const size_t c = size_t(p.ranking[i]);
    list.push_back(
        {{"class", classes[c]}, {"index", c}, {"probability", p.probabilities[c]}, {"logit", p.logits[c]}});
  }
  return list;
}

std::string to_text(const Prediction& p, const std::vector<std::string>& classes, size_t top) {
  apps::Table table{{"class", "probability"}, {}};
  for (size_t i = 0; i < top; ++i) {
    const size_t c = size_t(p.ranking[i]);
    table.rows.push_back({classes[c], fmt::format("{:.2f} %", 100 * p.probabilities[c])});
  }
  return apps::to_text(table);
}

}  // namespace

int predict(const PredictOptions& options) {
  if (options.threads > 0) set_num_threads(options.threads);
  if (options.top < 1) fail("predict", fmt::format("--top is {}, need at least 1", options.top));
  const LoadedModel loaded = load_model(options.checkpoint, options.ema);
  const std::vector<std::string>& classes = loaded.config.classes;
  const int64_t depth = loaded.config.depth;
  if (options.block < -depth || options.block >= depth)
    fail("predict", fmt::format("--block is {}, need {} to {}: the model has {} blocks", options.block,
                                -depth, depth - 1, depth));
  const size_t top = std::min(size_t(options.top), classes.size());
  fs::create_directories(options.out);

  Json report = Json::array();
  std::set<std::string> taken;
  bool failed = false;
  for (const std::string& file : picture_files(options.images)) {
    try {
      const Prediction p = look_at(loaded, data::read_image(file), options.block);
      const std::string picture = picture_path(options, file, taken);
      data::write_png(picture, attention_pair(p));
      if (options.json)
        report.push_back(
            {{"image", file}, {"attention", picture}, {"predictions", to_json(p, classes, top)}});
      else
        fmt::print("{}\n{}attention: {}\n\n", file, to_text(p, classes, top), picture);
    } catch (const Error& e) {
      failed = true;
      fmt::print(stderr, "error: {}\n", e.what());
      if (options.json) report.push_back({{"image", file}, {"error", e.what()}});
    }
  }
  // File names need not be UTF-8, JSON must be.
  if (options.json) fmt::print("{}\n", report.dump(2, ' ', false, Json::error_handler_t::replace));
  return failed ? 1 : 0;
}

}  // namespace pursuit::classify

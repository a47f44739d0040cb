#pragma once
#include <functional>
#include <string>
#include <vector>

#include "apps/run/json.h"
#include "apps/study/loaded_model.h"

namespace CLI {
class App;
}

namespace pursuit::apps {

// Options of `predict` of an app on pictures.
struct PicturePredictOptions {
  std::string checkpoint, out;  // out empty: "predictions" beside the checkpoint
  LoadOptions load;
  std::vector<std::string> images;  // files, and folders of them
  bool json = false;
};

void add_picture_predict_options(CLI::App& command, PicturePredictOptions& options,
                                 const LoadChoices& choices = {});

// The result for one picture: `text` and a line about written files, or with --json `fields`.
struct PicturePrediction {
  std::string text, files;
  nlohmann::ordered_json fields;
};

// Calls predict_one(file, base) for every picture and prints the result or the error. `base` is the prefix of
// the files it writes. Returns the exit code: 1 if a picture failed.
int predict_pictures(
    const PicturePredictOptions& options,
    const std::function<PicturePrediction(const std::string& file, const std::string& base)>& predict_one);

}  // namespace pursuit::apps

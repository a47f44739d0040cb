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

// What `predict` of an app on pictures is asked for.
struct PicturePredictOptions {
  std::string checkpoint, out;  // out empty: "predictions" beside the checkpoint
  LoadOptions load;
  std::vector<std::string> images;  // files, and folders of them
  bool json = false;
};

// The options above on a subcommand.
void add_picture_predict_options(CLI::App& command, PicturePredictOptions& options);

// What was found on one picture: `text` and a line on the files that were written for people, or `fields`
// beside the picture's name as JSON.
struct PicturePrediction {
  std::string text, files;
  nlohmann::ordered_json fields;
};

// Calls predict_one(file, base) for every picture that the options name, and prints what it returns, or its
// error; files that it writes begin with `base`. Returns the exit code: 1 if a picture has failed.
int predict_pictures(
    const PicturePredictOptions& options,
    const std::function<PicturePrediction(const std::string& file, const std::string& base)>& predict_one);

}  // namespace pursuit::apps

#include "apps/study/run_record.h"

#include <filesystem>

#include "apps/training/checkpoint.h"
#include "engine/base/error.h"

namespace pursuit::apps {

std::string app_of_run(const std::string& folder) {
  const std::string config = config_path(folder);
  if (!std::filesystem::exists(config)) return "";
  try {
    const auto json = read_json_object(config);
    if (json.contains("made-by")) return json.at("made-by").at(0).at("app");
    // Older runs name the app only in the checkpoint.
    const std::string file = checkpoint_path(folder);
    return std::filesystem::exists(file) ? load_safetensors(file).metadata["app"] : "";
  } catch (const std::exception&) {
    return "";  // the reader of the file reports the damage
  }
}

void check_app(const std::string& folder, const std::string& app) {
  const std::string of = app_of_run(folder);
  if (!of.empty() && of != app)
    fail(app.c_str(), folder + " is a run of `" + of + "`, need one of `" + app + "`");
}

void fail_no_run(const RunFolder& run) {
  std::string why;
  for (const std::string& p : run.problems)
    if (p.find("config") != std::string::npos) why += " " + p;
  fail("compare", run.folder + " is not the folder of a run." + why);
}

}  // namespace pursuit::apps

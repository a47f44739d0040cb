#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/json.h"

namespace pursuit::apps {

// What a run's folder holds, as far as it can be read, for the reports.
struct RunFolder {
  std::string folder, name;
  std::vector<nlohmann::ordered_json> metrics;
  std::vector<std::string> problems;  // what could not be read, and why

  // Reads metrics.jsonl. Throws Error if there is no such folder.
  explicit RunFolder(const std::string& folder);
  // Reads another file of it, unless it is missing or damaged, which goes to the problems.
  void attempt(const char* file, const std::function<void(const std::string& path)>& read);

  // That the metrics end with: where the run is, also after it went back to an earlier checkpoint.
  std::optional<int64_t> step() const;
  // The last value of a key of metrics.jsonl.
  std::optional<double> last(const std::string& key) const;
  std::optional<double> training_seconds()
      const;  // over all starts of a resumed run, up to the last evaluations
  // The median of "images_per_second" or of another unit.
  std::optional<double> per_second(const std::string& unit = "images") const;
};

// Removes what an earlier run has left in a folder, so that nothing of it passes for a new one's.
void remove_old_run(const std::string& folder);
// Throws Error if the file is one that a run keeps in its folder: no other output takes its place.
void check_output(const std::string& file);
// Throws Error that names the folder unless it is a run's.
void check_is_run(const std::string& folder);

// The JSON object in a file; throws Error that names it.
nlohmann::ordered_json read_json_object(const std::string& file);
std::string config_path(const std::string& folder);  // its config.json
// What it holds; throws Error that names the folder or the file.
nlohmann::ordered_json config_of_run(const std::string& folder);
// By chance when a training begins: a later one in the same folder has another. Empty if there is none, as in
// runs of earlier versions.
std::string run_id(const std::string& folder);
// What --resume changed of a run's length, which its weights depend on: "steps 4 to 6 at step 4", or nothing.
std::string changes_of_run(const std::string& folder);

// The name of what a path, which is not empty, leads to: of "data/cifar10/" and, in that folder, of "." too.
std::string last_name(const std::string& path);

}  // namespace pursuit::apps

#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/json.h"

namespace pursuit::apps {

// The readable files of a run's folder, for reports.
struct RunFolder {
  std::string folder, name;
  std::string group;  // the variant of a study that the run is of
  std::vector<nlohmann::ordered_json> metrics;
  std::vector<std::string> problems;  // files that could not be read, and why

  // Reads metrics.jsonl. Throws Error if there is no such folder.
  explicit RunFolder(const std::string& folder);
  // Calls read(path) for another file of the folder, if it exists. An exception is noted in `problems`.
  void attempt(const char* file, const std::function<void(const std::string& path)>& read);

  // The step of the last line of metrics.jsonl, which is the run's current step.
  std::optional<int64_t> step() const;
  // The last value of a key of metrics.jsonl.
  std::optional<double> last(const std::string& key) const;
  // Sum over all starts of a resumed run, each up to its last evaluation.
  std::optional<double> training_seconds() const;
  // The median of "images_per_second", or of another unit.
  std::optional<double> per_second(const std::string& unit = "images") const;
  std::optional<double> data_wait() const;  // share of the training time, mean
};

// Removes the files of an earlier run, so that they are not taken for the new run's.
void remove_old_run(const std::string& folder);
// Throws Error if writing the file would replace one of a run's own files.
void check_output(const std::string& file);
// Throws Error that names the folder if it is no run.
void check_is_run(const std::string& folder);

// The JSON object in a file. Throws Error that names the file.
nlohmann::ordered_json read_json_object(const std::string& file);
std::string config_path(const std::string& folder);  // of config.json
// The contents of config.json. Throws Error that names the folder or the file.
nlohmann::ordered_json config_of_run(const std::string& folder);
// A random id drawn when a run starts, which distinguishes later runs in the same folder. Empty for runs of
// older versions.
std::string run_id(const std::string& folder);
// Changes of a run's length by --resume, which its weights depend on: "steps 4 to 6 at step 4"; else empty.
std::string changes_of_run(const std::string& folder);

// The last name of a non-empty path: "cifar10" for "data/cifar10/", and for "." in that folder.
std::string last_name(const std::string& path);

}  // namespace pursuit::apps

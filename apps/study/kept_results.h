#pragma once
#include <functional>
#include <optional>
#include <string>

#include "engine/base/error.h"

namespace pursuit::apps {

// Where an evaluation keeps its results beside showing them: in a run's folder, or nowhere if a checkpoint
// file was evaluated.
class KeptResults {
 public:
  explicit KeptResults(const std::string& run_or_file);

  // add(folder) adds results to the folder's eval.json. Its Error is thrown by finish(): no result is lost
  // because it cannot be written.
  void add(const std::function<void(const std::string& folder)>& add);

  // After what is complete was shown. Says so if the evaluation was not `done`, throws the Error of add(),
  // and has the report written if `any` result is complete. Returns the exit code.
  int finish(bool done, bool any, const std::function<void(const std::string& folder)>& write_report) const;

 private:
  std::string folder_;  // empty: nowhere
  std::optional<Error> failed_;
};

}  // namespace pursuit::apps

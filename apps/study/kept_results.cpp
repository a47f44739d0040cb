#include "apps/study/kept_results.h"

#include <filesystem>

#include "apps/terminal/print.h"

namespace pursuit::apps {

KeptResults::KeptResults(const std::string& run_or_file)
    : folder_(std::filesystem::is_directory(run_or_file) ? run_or_file : "") {}

void KeptResults::add(const std::function<void(const std::string&)>& add) {
  if (folder_.empty()) return;
  try {
    add(folder_);
  } catch (const Error& error) {
    if (!failed_) failed_ = error;
  }
}

int KeptResults::finish(bool done, bool any,
                        const std::function<void(const std::string&)>& write_report) const {
  if (!done && !any) note("stopped before any result was complete\n");
  if (!done && any)
    note("stopped; what is complete is shown{}\n", folder_.empty() || failed_ ? "" : " and saved");
  if (failed_) throw *failed_;
  if (any && !folder_.empty()) write_report(folder_);
  return done ? 0 : 1;
}

}  // namespace pursuit::apps

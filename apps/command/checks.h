#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "apps/terminal/print.h"
#include "engine/base/error.h"

namespace pursuit::apps {

// Throws Error "APP: --option is VALUE, need ..." unless `ok`.
template <class T> void check_range(const char* app, const char* option, T value, bool ok, const char* need) {
  if (ok) return;
  std::ostringstream text;
  text << "--" << option << " is " << value << ", need " << need;
  fail(app, text.str());
}

// Throws Error that lists the known words unless `value` is one of them.
inline void check_word(const char* app, const char* option, const std::string& value,
                       const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), value) == known.end())
    fail(app, fmt::format("--{} is '{}', need one of {}", option, value, fmt::join(known, ", ")));
}

// Throws Error if the data's number of classes or their order differs from the model's (`knows`). Names
// unknown to the model are noted on stderr.
inline void check_classes(const std::vector<std::string>& has, const std::vector<std::string>& knows) {
  if (has.size() != knows.size())
    fail("eval",
         fmt::format("the data has {} classes, the model was trained on {}; it cannot be scored on them",
                     has.size(), knows.size()));
  for (size_t i = 0; i < has.size(); ++i) {
    const auto at = std::find(knows.begin(), knows.end(), has[i]);
    if (has[i] != knows[i] && at != knows.end())
      fail("eval",
           fmt::format("the data's classes have another order than the model's: '{}' is number {} there "
                       "and {} here; labels are numbers, so give the data the model's order ('classes' in "
                       "the run's config.json)",
                       has[i], i, at - knows.begin()));
  }
  if (has != knows)
    note("note: the data's classes have other names than the model's; they are taken by number\n");
}

// Throws Error unless the training pictures fill a step of `batches` batches; partial steps are dropped.
inline void check_batch(int64_t pictures, int64_t batch_size, int64_t batches) {
  if (pictures / batches >= batch_size) return;
  if (batches == 1)
    fail("train", fmt::format("{} training pictures do not fill a batch of {}; use a smaller --batch-size",
                              pictures, batch_size));
  fail("train", fmt::format("{} training pictures do not fill a step of {} batches of {}; use a smaller "
                            "--batch-size or --accumulate",
                            pictures, batches, batch_size));
}

}  // namespace pursuit::apps

#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "apps/terminal/print.h"

namespace pursuit::apps {

// The files a command was given; folders stand for the pictures in them. Throws Error on a folder without
// any.
std::vector<std::string> picture_files(const std::vector<std::string>& given);

// Calls work(file, number) for each. One that fails, also for want of memory, gets an error line that names
// it, then failed(file, why) if that is given, and the rest goes on. Returns the exit code, 1 if any has
// failed.
int for_each_file(const std::vector<std::string>& files,
                  const std::function<void(const std::string& file, int64_t number)>& work,
                  const std::function<void(const std::string& file, const std::string& why)>& failed = {});

// The folder that pictures go to: `out`, or where that is empty `name` in the folder of a run or a
// checkpoint.
std::string folder_for(const std::string& out, const std::string& run_or_file, const std::string& name);

// Names for what is made of files: their stems; those of the same stem from several folders get a number.
class UniqueStems {
 public:
  std::string operator()(const std::string& file);

 private:
  std::set<std::string> taken_;
};

// A note on the damaged pictures of a data set whose places others took, if there are any.
template <class DataSet> void note_replaced(const char* split, const DataSet& data) {
  if (data.skipped() > 0) note("{} damaged {} pictures were replaced\n", data.skipped(), split);
}

}  // namespace pursuit::apps

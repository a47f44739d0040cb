#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "apps/terminal/print.h"

namespace pursuit::apps {

// The given files, with folders replaced by the pictures in them. Throws Error for a folder without pictures.
std::vector<std::string> picture_files(const std::vector<std::string>& given);

// Calls work(file, number) for each file. If it throws (std::bad_alloc included), prints an error line with
// the file's name, calls failed(file, why) and continues. Returns the exit code: 1 if any file failed.
int for_each_file(const std::vector<std::string>& files,
                  const std::function<void(const std::string& file, int64_t number)>& work,
                  const std::function<void(const std::string& file, const std::string& why)>& failed = {});

// The output folder: `out`, or if that is empty the folder `name` beside the checkpoint.
std::string folder_for(const std::string& out, const std::string& run_or_file, const std::string& name);

// Output names for files: their stems, with a number appended to repeated ones.
class UniqueStems {
 public:
  std::string operator()(const std::string& file);

 private:
  std::set<std::string> taken_;
};

// Prints the number of damaged pictures that were replaced, if any.
template <class DataSet> void note_replaced(const char* split, const DataSet& data) {
  if (data.skipped() > 0) note("{} damaged {} pictures were replaced\n", data.skipped(), split);
}

}  // namespace pursuit::apps

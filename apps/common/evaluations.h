#pragma once
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/common/files.h"
#include "apps/common/run_lock.h"
#include "engine/error.h"

// eval.json in a run's folder: {"evaluations": [...]}, the one written last at the end. What an app measures,
// its Results, is a type with a member `step`, the optimizer steps behind the weights.
namespace pursuit::apps {

inline std::string evaluations_path(const std::string& folder) {
  return (std::filesystem::path(folder) / "eval.json").string();
}

// All of them; none if there is no file. Throws Error that names the file if it is damaged.
template <class Results>
std::vector<Results> read_evaluations(const std::string& folder,
                                      Results (*from_json)(const nlohmann::ordered_json&)) {
  const std::string path = evaluations_path(folder);
  std::vector<Results> all;
  if (!std::filesystem::exists(path)) return all;
  try {
    const auto json = nlohmann::ordered_json::parse(read_file(path));
    for (const auto& one : json.at("evaluations")) all.push_back(from_json(one));
  } catch (const std::exception& e) {
    fail("eval.json", "'" + path + "' is damaged (" + e.what() + "); remove it and evaluate again");
  }
  return all;
}

// Writes `fresh` behind the others, atomically. An older one that is `same(old, fresh)` goes, after
// `fresh = unite(old, fresh)`; those of other weights (another step) go too.
template <class Results, class Same, class Unite>
void add_evaluation(const std::string& folder, Results fresh,
                    Results (*from_json)(const nlohmann::ordered_json&),
                    nlohmann::ordered_json (*to_json)(const Results&), const Same& same, const Unite& unite) {
  const FolderLock lock(folder);
  std::vector<Results> all = read_evaluations(folder, from_json);
  std::erase_if(all, [&](const Results& r) { return r.step != fresh.step; });
  const auto old = std::find_if(all.begin(), all.end(), [&](const Results& r) { return same(r, fresh); });
  if (old != all.end()) {
    fresh = unite(*old, fresh);
    all.erase(old);
  }
  all.push_back(std::move(fresh));
  nlohmann::ordered_json json = {{"evaluations", nlohmann::ordered_json::array()}};
  for (const Results& r : all) json["evaluations"].push_back(to_json(r));
  write_file_atomically(evaluations_path(folder),
                        json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

// `old` with each of `fresh` in the place of the one with the same key, unless that one saw more samples
// (`count`), or at the end.
template <class T, class Key>
std::vector<T> united(std::vector<T> old, const std::vector<T>& fresh, const Key& key) {
  for (const T& f : fresh) {
    const auto same = std::find_if(old.begin(), old.end(), [&](const T& o) { return key(o) == key(f); });
    if (same == old.end())
      old.push_back(f);
    else if (f.count >= same->count)
      *same = f;
  }
  return old;
}

}  // namespace pursuit::apps

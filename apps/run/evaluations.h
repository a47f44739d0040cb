#pragma once
#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/run/files.h"
#include "apps/run/json.h"
#include "apps/run/run_folder.h"
#include "apps/run/run_lock.h"
#include "engine/base/error.h"

// eval.json in a run's folder: {"evaluations": [...]}, the newest entry last. An app's Results derive from
// Conditions and come with
//   to_json(results)                 an entry of the file
//   from_json(entry, all)            appends an entry's results to `all`
//   alike(a, b)                      true if both have the same conditions and share an entry
//   unite(old, fresh)                merges an older and a newer entry; default: the newer one
namespace pursuit::apps {

// The conditions of a measurement. Results under different conditions are separate entries; one never
// replaces the other, and no mean is taken over both.
struct Conditions {
  std::string data;                // without paths: "cifar10 test"
  std::string fingerprint = {};    // of the evaluated samples, see data/fingerprint.h
  int64_t count = 0;               // evaluated samples: pictures, or predicted tokens
  std::string weights = "raw";     // or "ema"
  int64_t step = 0;                // optimizer steps of the weights
  std::string dtype = {};          // of the model
  std::string options = {};        // options of `eval` that repeat the measurement
  nlohmann::ordered_json made_by;  // see apps/training/provenance.h
  std::string run = {};            // run_id of the weights' run
};

// True if all conditions but `options` agree; of `made_by` only the program's version and commit.
bool alike(const Conditions& a, const Conditions& b);

// `count` is the JSON key of Conditions::count. Fields that older files lack stay empty.
nlohmann::ordered_json to_json(const Conditions& conditions, const char* count = "count");
Conditions conditions_from_json(const nlohmann::ordered_json& json, const char* count = "count");

// "VERSION COMMIT" of the program; "not recorded" if unknown.
std::string program(const Conditions& conditions);

// For example "camvid test, 233 pictures, averaged weights, step 3120, bf16".
std::string describe(const Conditions& conditions, const std::string& unit);

std::string evaluations_path(const std::string& folder);

// All results in a folder's eval.json; empty if there is no file. Throws Error that names a damaged file.
template <class Results> std::vector<Results> read_evaluations(const std::string& folder) {
  const std::string path = evaluations_path(folder);
  std::vector<Results> all;
  if (!std::filesystem::exists(path)) return all;
  try {
    const auto json = nlohmann::ordered_json::parse(read_file(path));
    for (const auto& one : json.at("evaluations")) from_json(one, all);
  } catch (const std::exception& e) {
    fail("eval.json", "'" + path + "' is damaged (" + e.what() + "); remove it and evaluate again");
  }
  return all;
}

template <class Results> Results unite(const Results&, const Results& fresh) { return fresh; }

// Adds `fresh` to eval.json, atomically. An entry with the same conditions is merged with it (unite). Throws
// Error if another run has started in the folder since the weights of `fresh` were loaded.
template <class Results> void add_evaluation(const std::string& folder, Results fresh) {
  const FolderLock lock(folder);
  if (fresh.run != run_id(folder))
    fail("eval", folder +
                     ": another training has begun there since the weights were loaded; their results are "
                     "not added to its eval.json");
  std::vector<Results> all = read_evaluations<Results>(folder);
  const auto old = std::find_if(all.begin(), all.end(), [&](const Results& r) { return alike(r, fresh); });
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

// `old` with each element of `fresh` replacing the one with the same key, or appended.
template <class T, class Key>
std::vector<T> united(std::vector<T> old, const std::vector<T>& fresh, const Key& key) {
  for (const T& f : fresh) {
    const auto same = std::find_if(old.begin(), old.end(), [&](const T& o) { return key(o) == key(f); });
    if (same == old.end())
      old.push_back(f);
    else
      *same = f;
  }
  return old;
}

// The results of the run's current step; if there are none, of the step of the newest result. Results may be
// of later steps (the run went back to an earlier checkpoint) or of earlier ones (training has continued).
template <class Results> std::vector<Results> of_last_step(std::vector<Results> all, const RunFolder& run) {
  const auto is_at = [](std::optional<int64_t> step) {
    return [step](const Results& r) { return r.step == step; };
  };
  if (all.empty()) return all;
  const bool any = std::any_of(all.begin(), all.end(), is_at(run.step()));
  std::erase_if(all, std::not_fn(is_at(any ? run.step() : all.back().step)));
  return all;
}

// The run's main evaluation: the one with the largest like(results), which rates the similarity to the run's
// own evaluations; among equals one of the `weights`, then the one with most samples, then the newest. Null
// if `all` is empty.
template <class Results, class Like> const Results* main_evaluation(const std::vector<Results>& all,
                                                                    const std::string& weights,
                                                                    const Like& like) {
  const auto rank = [&](const Results& r) { return std::tuple(like(r), r.weights == weights, r.count); };
  const Results* best = nullptr;
  for (const Results& r : all)
    if (!best || rank(r) >= rank(*best)) best = &r;
  return best;
}

}  // namespace pursuit::apps

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

// eval.json in a run's folder: {"evaluations": [...]}, the one written last at the end. What an app measures,
// its Results, is a type derived from Conditions, beside which stand
//   to_json(results)                 an entry of the file
//   from_json(entry, all)            adds to `all` what an entry holds
//   alike(a, b)                      whether they were measured alike, so that they are of one entry
//   unite(old, fresh)                that entry, of an older and a newer evaluation; left out: the newer one
namespace pursuit::apps {

// What a result was measured with. Results of unlike conditions stand beside each other: none takes another's
// place, and no mean is over both.
struct Conditions {
  std::string data;                // without paths: "cifar10 test"
  std::string fingerprint = {};    // of the samples that were evaluated, see data/fingerprint.h
  int64_t count = 0;               // of them: pictures, or tokens that were predicted
  std::string weights = "raw";     // or "ema"
  int64_t step = 0;                // optimizer steps behind the weights
  std::string dtype = {};          // of the model
  std::string options = {};        // of `eval` that lead to these, as on a command line
  nlohmann::ordered_json made_by;  // see apps/training/provenance.h
  std::string run = {};            // whose weights were loaded, see run_id
};

// Whether all of them agree but the options; of what they were made by, the program alone: its version and
// commit.
bool alike(const Conditions& a, const Conditions& b);

// `count` names the samples' number. Files written before there were fingerprints say neither them nor dtype
// and program, which stay empty.
nlohmann::ordered_json to_json(const Conditions& conditions, const char* count = "count");
Conditions conditions_from_json(const nlohmann::ordered_json& json, const char* count = "count");

// "version commit" of the program; "not recorded" if it is not known.
std::string program(const Conditions& conditions);

// "camvid test, 233 pictures, averaged weights, step 3120, bf16"
std::string describe(const Conditions& conditions, const std::string& unit);

std::string evaluations_path(const std::string& folder);

// All of a folder's; none if there is no file. Throws Error that names the file if it is damaged.
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

// Writes `fresh` behind the others, atomically; it takes the place of one that was measured alike, united
// with it. Throws Error if another run has begun in the folder since the weights of `fresh` were loaded.
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

// `old` with each of `fresh` in the place of the one with the same key, or at the end.
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

// Those of the weights that the run is at; if there are none, of those that were evaluated last. A run that
// went back to an earlier checkpoint may have results of more steps, an evaluation beside a training of
// fewer.
template <class Results> std::vector<Results> of_last_step(std::vector<Results> all, const RunFolder& run) {
  const auto is_at = [](std::optional<int64_t> step) {
    return [step](const Results& r) { return r.step == step; };
  };
  if (all.empty()) return all;
  const bool any = std::any_of(all.begin(), all.end(), is_at(run.step()));
  std::erase_if(all, std::not_fn(is_at(any ? run.step() : all.back().step)));
  return all;
}

// The one that stands for the run: as far as there is any, the one that is most `like` the run's own
// evaluations (the larger the more), on the weights that it is evaluated on, of the most samples, the one
// written last. Null if there is none.
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

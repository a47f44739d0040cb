#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "apps/run/evaluations.h"
#include "apps/terminal/table.h"
#include "data/corruptions.h"

namespace pursuit::apps {

// Scores of an app under one corruption. The app defines read_scores(json, scores) and write_scores(json,
// scores) for its type Scores.
template <class Scores> struct Corrupted {
  std::string name;
  int severity = 0;
  Scores scores;
};

// Scores on a set of pictures, clean and corrupted, with the same weights and seed.
template <class ScoresType> struct PictureResults : Conditions {
  using Scores = ScoresType;

  uint64_t seed = 0;            // of corruptions and attacks
  std::string frost = "drawn";  // overlays of the corruption frost: "drawn", or their folder's name
  Scores scores;                // on clean pictures; unknown if not measured
  std::vector<Corrupted<Scores>> corrupted;
};

template <class Scores> bool alike(const PictureResults<Scores>& a, const PictureResults<Scores>& b) {
  return alike(static_cast<const Conditions&>(a), b) && a.seed == b.seed && a.frost == b.frost;
}

template <class Scores>
void unite_corrupted(PictureResults<Scores>& fresh, const PictureResults<Scores>& old) {
  fresh.corrupted =
      united(old.corrupted, fresh.corrupted, [](const auto& c) { return std::tuple(c.name, c.severity); });
}

template <class Scores> nlohmann::ordered_json to_json(const PictureResults<Scores>& r) {
  nlohmann::ordered_json json = to_json(static_cast<const Conditions&>(r));
  json["seed"] = r.seed;
  json["frost"] = r.frost;
  write_scores(json, r.scores);
  // Each has its own "count", for readers of one alone.
  json["corrupted"] = nlohmann::ordered_json::array();
  for (const Corrupted<Scores>& c : r.corrupted) {
    nlohmann::ordered_json one = {{"name", c.name}, {"severity", c.severity}, {"count", r.count}};
    write_scores(one, c.scores);
    json["corrupted"].push_back(std::move(one));
  }
  return json;
}

// An entry of eval.json. In older files a corruption or attack may be on fewer pictures than its entry. Those
// become separate entries (`fewer`), whose other scores are unknown.
template <class Results> class PictureEntry {
 public:
  explicit PictureEntry(const nlohmann::ordered_json& json) {
    static_cast<Conditions&>(entry) = conditions_from_json(json);
    entry.seed = member_of<uint64_t>(json, "seed");
    entry.frost = json.value("frost", "");
    for (const auto& c : json.at("corrupted")) {
      Corrupted<typename Results::Scores> one{c.at("name"), member_of<int>(c, "severity"), {}};
      read_scores(c, one.scores);
      of(c).corrupted.push_back(std::move(one));
    }
    read_scores(json, entry.scores);
  }

  // The entry for one corruption or attack.
  Results& of(const nlohmann::ordered_json& item) {
    const auto count = member_of<int64_t>(item, "count");
    if (count == entry.count) return entry;
    const auto [at, is_new] = fewer.try_emplace(count);
    if (is_new) {
      static_cast<Conditions&>(at->second) = entry;
      at->second.seed = entry.seed;
      at->second.frost = entry.frost;
      at->second.count = count;
    }
    return at->second;
  }

  Results entry;
  std::map<int64_t, Results> fewer;  // by the number of pictures
};

template <class Scores> std::set<int> severities_of(const std::vector<Corrupted<Scores>>& corrupted) {
  std::set<int> all;
  for (const Corrupted<Scores>& c : corrupted) all.insert(c.severity);
  return all;
}

// A row per evaluated corruption and a column per severity; cell(scores) returns the text.
template <class Scores, class Cell>
Table corruption_table(const std::vector<Corrupted<Scores>>& corrupted, const Cell& cell) {
  const std::set<int> severities = severities_of(corrupted);
  Table table{{"corruption"}, {}};
  for (const int s : severities) table.columns.push_back(fmt::format("severity {}", s));
  for (const std::string& name : data::corruption_names()) {
    std::map<int, std::string> cells;
    for (const Corrupted<Scores>& c : corrupted)
      if (c.name == name) cells[c.severity] = cell(c.scores);
    if (cells.empty()) continue;
    table.rows.push_back({name});
    for (const int s : severities) table.rows.back().push_back(cells.contains(s) ? cells[s] : "-");
  }
  return table;
}

// The evaluated corruptions as text: "all at 1-5", "fog, snow at 2", "fog at 1,3; snow at 2". If `brief`,
// more than three are only counted: "5 types at 1,3,5".
template <class Scores>
std::string corruption_set(const std::vector<Corrupted<Scores>>& corrupted, bool brief = false) {
  std::map<std::string, std::set<int>> severities;
  for (const Corrupted<Scores>& c : corrupted) severities[c.name].insert(c.severity);
  std::map<std::set<int>, std::vector<std::string>> names;
  for (const auto& [name, at] : severities) names[at].push_back(name);
  std::string text;
  for (const auto& [at, of] : names) {
    const bool range = at.size() > 1 && int64_t(*at.rbegin()) - *at.begin() + 1 == int64_t(at.size());
    text += fmt::format(
        "{}{} at {}", text.empty() ? "" : "; ",
        of.size() == data::corruption_names().size() ? "all"
        : brief && of.size() > 3                     ? fmt::format("{} types", of.size())
                                                     : fmt::format("{}", fmt::join(of, ", ")),
        range ? fmt::format("{}-{}", *at.begin(), *at.rbegin()) : fmt::format("{}", fmt::join(at, ",")));
  }
  return text;
}

// The corruptions in parts, each with the same severities.
template <class Scores>
std::vector<std::vector<Corrupted<Scores>>> by_severities(const std::vector<Corrupted<Scores>>& corrupted) {
  std::map<std::string, std::set<int>> severities;
  for (const Corrupted<Scores>& c : corrupted) severities[c.name].insert(c.severity);
  std::map<std::set<int>, std::vector<Corrupted<Scores>>> parts;
  for (const Corrupted<Scores>& c : corrupted) parts[severities[c.name]].push_back(c);
  std::vector<std::vector<Corrupted<Scores>>> all;
  for (const auto& [at, part] : parts) all.push_back(part);
  return all;
}

// Options of `eval` that repeat the corruptions, all at the same severities: " --corruptions fog,snow --severities 1".
template <class Scores> std::string corruption_arguments(const std::vector<Corrupted<Scores>>& corrupted) {
  if (corrupted.empty()) return "";
  std::set<std::string> names;
  std::set<int> severities;
  for (const Corrupted<Scores>& c : corrupted) names.insert(c.name), severities.insert(c.severity);
  return fmt::format(
      " --corruptions {} --severities {}",
      names.size() < data::corruption_names().size() ? fmt::format("{}", fmt::join(names, ",")) : "all",
      fmt::join(severities, ","));
}

}  // namespace pursuit::apps

#include "apps/pca/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <mutex>

#include "apps/run/fields.h"
#include "apps/run/files.h"
#include "apps/run/run_folder.h"
#include "engine/base/error.h"
#include "engine/cpu/parallel.h"

namespace pursuit::pca {

using Json = nlohmann::ordered_json;

namespace {

constexpr int64_t records_of_curve = 300;

Setting exact_of(Setting setting) {
  setting.prompts = Prompts::exact;
  return setting;
}

bool has_exact(const Setting& s) { return s.layer == Layer::softmax || !s.in_context; }

// The curves of an iteration experiment: every record.
void take_curves(Result& r, const std::function<bool(int64_t)>& tick) {
  const Setting& s = r.experiment.setting;
  const Covariance covariance = covariance_of(s, r.seed);
  Training training{s, covariance, r.seed, 0, records_of_curve, tick};
  const Trace trace = train(training);
  r.x.assign(trace.iterations.begin(), trace.iterations.end());
  r.cosine = trace.cosine, r.norm = trace.norm, r.risk = trace.risk;
  r.oja = trace.oja, r.sample_pca = trace.sample_pca;
  if (s.prompts == Prompts::drawn && has_exact(s))
    r.exact = train({exact_of(s), covariance, r.seed, 0, records_of_curve}).cosine;
}

// The ends of the trainings of a sweep.
void take_ends(Result& r, const std::function<bool(int64_t)>& tick) {
  const std::vector<int64_t>& values = r.experiment.values;
  const Setting& base = r.experiment.setting;
  const bool drawn = base.prompts == Prompts::drawn;
  r.x.assign(values.begin(), values.end());
  const auto sized = [&](bool has) {
    return has ? Values(size_t(base.runs), std::vector<double>(values.size())) : Values();
  };
  r.cosine = r.norm = r.risk = sized(true);
  r.oja = r.sample_pca = sized(drawn);
  r.exact = sized(drawn && has_exact(base));
  parallel_for(int64_t(values.size()), 1, [&](int64_t begin, int64_t end) {
    for (size_t at = size_t(begin); at < size_t(end); ++at) {
      const Setting s = setting_at(r.experiment, values[at]);
      const Covariance covariance = covariance_of(s, r.seed);
      // 50 records, so that the risk of drawn prompts is a mean over the last 2 % of the steps.
      const Trace trace = train({s, covariance, r.seed, int64_t(at), 50, tick});
      const auto keep = [&](Values& ends, const Values& curves) {
        for (size_t run = 0; run < curves.size(); ++run) ends[run][at] = curves[run].back();
      };
      keep(r.cosine, trace.cosine), keep(r.norm, trace.norm), keep(r.risk, trace.risk);
      keep(r.oja, trace.oja), keep(r.sample_pca, trace.sample_pca);
      if (!r.exact.empty()) keep(r.exact, train({exact_of(s), covariance, r.seed, int64_t(at)}).cosine);
    }
  });
}

std::string path_of(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

// The members that hold values, by their names in files. `F` gets (name, values).
template <class R, class F> void for_each_values(R& r, const F& f) {
  f("cosine", r.cosine);
  f("norm", r.norm);
  f("risk", r.risk);
  f("oja", r.oja);
  f("sample_pca", r.sample_pca);
  f("exact", r.exact);
}

std::string csv_of(const Result& r) {
  std::string header = fmt::format("experiment,{},run", choice_name(r.experiment.axis)), text;
  for_each_values(r, [&](const char* name, const Values& values) {
    if (!values.empty()) header += fmt::format(",{}", name);
  });
  for (size_t run = 0; run < r.cosine.size(); ++run)
    for (size_t at = 0; at < r.x.size(); ++at) {
      text += fmt::format("{},{:.0f},{}", r.experiment.name, r.x[at], run + 1);
      for_each_values(r, [&](const char*, const Values& values) {
        if (values.empty()) return;
        const double v = values[run][at];
        text += std::isfinite(v) ? fmt::format(",{:.9g}", v) : ",";
      });
      text += "\n";
    }
  return header + "\n" + text;
}

// The values of a member, null standing for none (NaN); empty, or as many runs and x as there are.
void read_values(const Json& json, const char* name, size_t runs, size_t count, bool may_be_empty,
                 Values& to) {
  const Json& rows = json.at(name);
  const auto wrong = [&] {
    fail("json", fmt::format("'{}' is no list of {} lists of {} numbers", name, runs, count));
  };
  if (!rows.is_array() || !(rows.size() == runs || (may_be_empty && rows.empty()))) wrong();
  for (const Json& row : rows) {
    if (!row.is_array() || row.size() != count) wrong();
    to.emplace_back();
    for (const Json& v : row) {
      if (!v.is_null() && !v.is_number()) wrong();
      to.back().push_back(v.is_null() ? NAN : v.get<double>());
    }
  }
}

// Throws Error unless an experiment of that name could have this setting and these values.
void check_known(const Experiment& e) {
  const Experiment known = experiment_named(e.name, false);
  Setting s = e.setting;
  const auto need = [](bool ok, const char* what) {
    if (!ok) fail("json", what);
  };
  need(s.runs >= 1 && s.runs <= most_runs, "'runs' is out of range");
  need(s.steps >= 1 && s.steps <= most_steps, "'steps' is out of range");
  need(s.lambda > 0 && s.learning_rate > 0 && s.theta > 0, "lambda, learning rate or theta is not above 0");
  need(e.axis == known.axis && e.values.empty() == known.values.empty(), "'axis' is another experiment's");
  need(e.values.size() <= size_t(most_sweep_points), "there are too many values of the sweep");
  for (const int64_t v : e.values)
    need(v >= 2 && v <= most_sweep_value, "a value of the sweep is out of range");
  // The rest cannot be chosen.
  s.runs = known.setting.runs, s.steps = known.setting.steps, s.theta = known.setting.theta;
  s.lambda = known.setting.lambda, s.learning_rate = known.setting.learning_rate;
  s.covariances = known.setting.covariances, s.per_covariance = known.setting.per_covariance;
  need(s == known.setting, "the setting is another experiment's");
}

}  // namespace

int64_t steps_of(const Experiment& e) {
  return e.setting.steps * std::max<int64_t>(1, int64_t(e.values.size()));
}

std::optional<Result> run_experiment(const Experiment& experiment, uint64_t seed,
                                     const std::function<bool(int64_t)>& tick) {
  const auto begin = std::chrono::steady_clock::now();
  Result result;
  result.experiment = experiment;
  result.seed = seed;
  std::mutex mutex;
  bool goes_on = true;
  const auto one_at_a_time = [&](int64_t steps) {
    const std::lock_guard lock(mutex);
    return goes_on = goes_on && tick(steps);
  };
  if (experiment.axis == Axis::iteration)
    take_curves(result, one_at_a_time);
  else
    take_ends(result, one_at_a_time);
  if (!goes_on) return std::nullopt;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

ExactRisk theory_at(const Result& r, double x) {
  const Setting s =
      r.experiment.axis == Axis::iteration ? r.experiment.setting : setting_at(r.experiment, std::llround(x));
  return ExactRisk(exact_of(s), covariance_of(s, r.seed));
}

std::vector<double> values_at(const Result& r, const Values& values, double x) {
  const auto found = std::find(r.x.begin(), r.x.end(), x);
  if (found == r.x.end()) fail("pca", fmt::format("{} has no record at {}", r.experiment.name, x));
  std::vector<double> at;
  for (const std::vector<double>& run : values) at.push_back(run[size_t(found - r.x.begin())]);
  return at;
}

void write_result(const Result& r, const std::string& folder) {
  Json json = {{"program", "pca"},
               {"version", PURSUIT_VERSION},
               {"experiment", r.experiment.name},
               {"axis", choice_name(r.experiment.axis)},
               {"setting", apps::fields_to_json(r.experiment.setting)},
               {"values", r.experiment.values},
               {"seed", r.seed},
               {"seconds", r.seconds},
               {"x", r.x}};
  for_each_values(r, [&](const char* name, const Values& values) { json[name] = values; });
  apps::write_file_atomically(path_of(folder, r.experiment.name + ".csv"), csv_of(r));
  apps::write_file_atomically(path_of(folder, r.experiment.name + ".json"), json.dump() + "\n");
}

std::optional<Result> read_result(const std::string& folder, const std::string& name) {
  const std::string file = path_of(folder, name + ".json");
  if (!std::filesystem::exists(file)) return std::nullopt;
  const Json json = apps::read_json_object(file);
  try {
    Result r;
    r.experiment = experiment_named(name, false);
    if (apps::member_of<std::string>(json, "experiment") != name) fail("json", "'experiment' is not " + name);
    r.experiment.axis = apps::member_of<Axis>(json, "axis");
    r.experiment.values = apps::member_of<std::vector<int64_t>>(json, "values");
    r.experiment.setting = apps::fields_from_json<Setting>(json.at("setting"), file);
    r.seed = apps::member_of<uint64_t>(json, "seed");
    r.seconds = apps::member_of<double>(json, "seconds");
    r.x = apps::member_of<std::vector<double>>(json, "x");
    check_known(r.experiment);
    const bool sweep = r.experiment.axis != Axis::iteration;
    if (r.x.empty() || (sweep && !std::equal(r.x.begin(), r.x.end(), r.experiment.values.begin(),
                                             r.experiment.values.end())))
      fail("json", "'x' is not what the experiment goes over");
    const bool drawn = r.experiment.setting.prompts == Prompts::drawn;
    for_each_values(r, [&]<class V>(const char* member, V& values) {
      const bool may_be_empty = &values == &r.oja || &values == &r.sample_pca || &values == &r.exact;
      read_values(json, member, size_t(r.experiment.setting.runs), r.x.size(), may_be_empty && !drawn,
                  values);
    });
    return r;
  } catch (const std::exception& e) {
    fail("pca", fmt::format("{} is damaged ({}); remove it and run the experiment again", file, e.what()));
  }
}

}  // namespace pursuit::pca

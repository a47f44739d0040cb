#include "apps/classify/attack_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "apps/command/choice.h"
#include "apps/pictures/attack_options.h"
#include "engine/base/error.h"

namespace pursuit::classify {

namespace {

constexpr double whole_range = 255;
constexpr int64_t more_steps = 10;      // times as many
constexpr int64_t most_steps = 10'000;  // of the shorter run

bool same(const attacks::Settings& a, const attacks::Settings& b) {
  const auto& complete = attacks::info_of(a.name).complete;
  return a.name == b.name && a.budget == b.budget && complete(a.options) == complete(b.options);
}

std::set<double> radii(attacks::Norm norm, const EvalOptions& o) {
  const bool linf = norm == attacks::Norm::linf;
  const auto& given = linf ? o.budgets : o.l2_budgets;
  const auto& all = !given.empty() ? given : linf ? usual_budgets : usual_l2_budgets;
  return {all.begin(), all.end()};
}

std::set<double> budgets_of(const attacks::Settings& s, const EvalOptions& o) {
  const attacks::AttackInfo& info = attacks::info_of(s.name);
  return info.traits.norm ? radii(*info.traits.norm, o) : std::set<double>{info.budget(s.options)};
}

// Throws Error if budgets are given in a norm that none of the attacks is in.
void refuse_unused_budgets(const EvalOptions& o, const std::set<std::string>& used) {
  const auto refuse = [&](const char* option, const std::vector<double>& given, attacks::Norm norm) {
    const auto is_in = [&](const std::string& name) { return attacks::info_of(name).traits.norm == norm; };
    if (!given.empty() && std::none_of(used.begin(), used.end(), is_in))
      fail("eval", fmt::format("{} has no effect without an attack in {}; leave it out", option,
                               norm == attacks::Norm::linf ? "l_inf" : "l2"));
  };
  refuse("--budgets", o.budgets, attacks::Norm::linf);
  refuse("--l2-budgets", o.l2_budgets, attacks::Norm::l2);
}

}  // namespace

std::vector<attacks::Settings> attack_runs(const EvalOptions& o, const Config& config) {
  const auto settings = [&](const std::string& name) {
    attacks::Settings s;
    s.name = name;
    s.pixel = o.attack_space == AttackSpace::pixel;
    s.mean = config.mean;
    s.std = config.std;
    if (const auto given = o.attack_options.find(name); given != o.attack_options.end())
      s.options = given->second;
    s.seed = o.seed;
    return s;
  };
  std::vector<attacks::Settings> runs;
  const auto add = [&](attacks::Settings s, double budget) {
    s.budget = budget;
    if (std::none_of(runs.begin(), runs.end(), [&](const auto& other) { return same(s, other); }))
      runs.push_back(std::move(s));
  };
  const std::vector<std::string> names = apps::chosen("--attack", o.attacks, attacks::names());
  for (const std::string& name : names) {
    const attacks::Settings s = settings(name);
    for (const double budget : budgets_of(s, o)) add(s, budget);
  }
  std::set<std::string> used(names.begin(), names.end());
  if (o.masking_check) used.insert({"apgd-ce", "square", "pgd"});
  apps::refuse_unused(o.attack_options, used);
  refuse_unused_budgets(o, used);
  if (!o.masking_check) return runs;
  if (o.attack_space != AttackSpace::pixel)
    fail("eval", "--masking-check tries the whole range of pixels, which --attack-space pixel has");
  const double largest = *radii(attacks::Norm::linf, o).rbegin();
  const attacks::Settings pgd = settings("pgd");
  attacks::Settings longer = pgd;
  const auto steps = std::get<int64_t>(attacks::info_of("pgd").complete(pgd.options).at("steps"));
  if (steps < 1 || steps > most_steps)
    fail("eval", fmt::format("--masking-check also runs PGD with {} times --pgd-steps; give 1 to {}, not {}",
                             more_steps, most_steps, steps));
  longer.options["steps"] = more_steps * steps;
  add(settings("apgd-ce"), largest);
  add(settings("square"), largest);
  add(pgd, largest);
  add(longer, largest);
  add(pgd, whole_range);
  return runs;
}

}  // namespace pursuit::classify

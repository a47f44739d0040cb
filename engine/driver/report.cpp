#include "engine/driver/report.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace pursuit::driver {

void print(const Report& r, const char* mode, bool json) {
  constexpr size_t shown_failures = 3;
  if (json) {
    nlohmann::json line = {{"mode", mode},          {"op", r.name},           {"ok", r.ok()},
                           {"samples", r.samples},  {"compared", r.compared}, {"worst", r.worst},
                           {"failures", r.failures}};
    std::printf("%s\n", line.dump().c_str());
  } else {
    std::printf("%-5s %-26s %3lld samples %8lld compared  worst %5.2f  %s\n", mode, r.name.c_str(),
                static_cast<long long>(r.samples), static_cast<long long>(r.compared), r.worst,
                r.ok() ? "ok" : "FAILED");
    for (size_t i = 0; i < std::min(shown_failures, r.failures.size()); ++i)
      std::printf("        %s\n", r.failures[i].c_str());
    if (r.failures.size() > shown_failures)
      std::printf("        and %zu more\n", r.failures.size() - shown_failures);
  }
  std::fflush(stdout);
}

int Counts::close() const {
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed || !passed ? 1 : 0;
}

void run_canaries(bool json, Counts& counts) {
  int found = 0;
  for (const OperatorInfo& op : inventory()) {
    if (!is_canary(op)) continue;
    ++found;
    const Report value = check(op, cpu, {DType::f32, DType::bf16});
    // A failing number counts in "worst" too, which would otherwise look like success.
    const bool by_number = std::any_of(value.failures.begin(), value.failures.end(), [](const auto& text) {
      return text.find(" within ") != std::string::npos || text.find("differences") != std::string::npos;
    });
    const bool caught = !value.ok() && (!by_number || value.worst > 1);
    counts.add(caught);
    const std::string how = value.ok() ? "" : value.failures[0];
    if (json)
      std::printf(
          "%s\n",
          nlohmann::json{{"mode", "canary"}, {"op", op.name}, {"ok", caught}, {"by", how}}.dump().c_str());
    else
      std::printf("canary %-34s %s  %s\n", op.name.c_str(), caught ? "caught" : "NOT CAUGHT: FAILED",
                  how.c_str());
  }
  if (!found) {
    std::printf("no canary was linked in\n");
    counts.add(false);
  }
}

}  // namespace pursuit::driver

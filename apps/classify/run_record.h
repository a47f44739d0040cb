#pragma once
#include <string>
#include <utility>
#include <vector>

#include "apps/classify/config.h"
#include "apps/classify/results.h"
#include "apps/training/run_record.h"

namespace pursuit::classify {

using RunRecord = apps::RunRecord<Config, read_results>;

// "RPC-Attention (4 iterations, block 0)"
std::string describe_attention(const Config& config);

std::string percent(double fraction);                               // "81.25%"
std::string budget_text(const std::string& attack, double budget);  // "4/255", "0.1", "-"

// Accuracy (%) over the budgets of one attack, in one space; empty unless there are at least two budgets.
std::vector<std::pair<double, double>> attack_curve(const Results& results, const std::string& attack,
                                                    const std::string& space);

}  // namespace pursuit::classify

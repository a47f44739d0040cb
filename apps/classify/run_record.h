#pragma once
#include <string>
#include <utility>
#include <vector>

#include "apps/classify/config.h"
#include "apps/classify/results.h"
#include "apps/training/comparison.h"
#include "apps/training/run_record.h"

namespace pursuit::classify {

using RunRecord = apps::RunRecord<Config, read_results>;

// Runs side by side: all in short; the accuracy under each corruption; or under every attack and budget.
enum class Detail { summary, corruptions, attacks };
apps::Comparison compare_records(const std::vector<RunRecord>& runs, Detail detail);

// The evaluation that stands for a run: of its own test split, on the pictures it was watched with. Null if
// there is none.
const Results* main_evaluation(const std::vector<Results>& results, const Config& config);

// "RPC-Attention (4 iterations, block 0)"
std::string describe_attention(const Config& config);

std::string percent(double fraction);                               // "81.25%", "-" if it is not known
std::string budget_text(const std::string& attack, double budget);  // "4/255", "0.1", "-"

// Accuracy (%) over the budgets of one attack, in one space, from no attack (0) on; empty if there are none.
std::vector<std::pair<double, double>> attack_curve(const Results& results, const std::string& attack,
                                                    const std::string& space);

}  // namespace pursuit::classify

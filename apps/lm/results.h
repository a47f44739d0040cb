#pragma once
#include <string>
#include <vector>

#include "apps/lm/config.h"
#include "apps/run/evaluations.h"
#include "apps/study/run_record.h"
#include "apps/terminal/table.h"

namespace pursuit::lm {

// One perplexity of one set of weights.
struct Results : apps::Conditions {
  std::string split;   // train, valid, test
  std::string window;  // blocks, documents or sliding: what a token is predicted from
  std::string attack;  // empty, or "AAA, rate 0.015, NLTK's stop words kept, seed 0"
  double loss = 0;     // mean cross-entropy, nats
  double perplexity() const;
};
// See apps/run/evaluations.h.
nlohmann::ordered_json to_json(const Results& results);
void from_json(const nlohmann::ordered_json& json, std::vector<Results>& all);
bool alike(const Results& a, const Results& b);

using RunRecord = apps::RunRecord<Config, Results>;

apps::Table to_table(const std::vector<Results>& results);

}  // namespace pursuit::lm

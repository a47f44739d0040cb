#pragma once
#include <string>
#include <vector>

#include "apps/common/evaluations.h"
#include "apps/common/table.h"
#include "apps/lm/config.h"
#include "apps/study/run_record.h"

namespace pursuit::lm {

// One perplexity of one set of weights.
struct Results : apps::Conditions {
  std::string split;   // train, valid, test
  std::string window;  // blocks, documents or sliding: what a token is predicted from
  std::string attack;  // empty, or "AAA, rate 0.015, NLTK's stop words kept, seed 0"
  double loss = 0;     // mean cross-entropy, nats
  double perplexity() const;
};
// See apps/common/evaluations.h.
nlohmann::ordered_json to_json(const Results& results);
void from_json(const nlohmann::ordered_json& json, std::vector<Results>& all);
bool alike(const Results& a, const Results& b);

using RunRecord = apps::RunRecord<Config, Results>;

apps::Table to_table(const std::vector<Results>& results);

}  // namespace pursuit::lm

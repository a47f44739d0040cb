#pragma once
#include <string>
#include <vector>

#include "apps/common/evaluations.h"
#include "apps/common/json.h"
#include "apps/common/table.h"

namespace pursuit::lm {

// One perplexity of one set of weights.
struct Results : apps::Conditions {
  std::string split;   // train, valid, test
  std::string window;  // blocks, documents or sliding: what a token is predicted from
  std::string attack;  // empty, or "AAA, rate 0.015, NLTK's stop words kept, seed 0"
  double loss = 0;     // mean cross-entropy, nats
  double perplexity() const;
};
nlohmann::ordered_json to_json(const Results& results);

// Those in a run's folder, the one written last at the end; none if there is no eval.json. Throws Error that
// names the file if it is damaged.
std::vector<Results> read_results(const std::string& folder);
// Adds to the folder's eval.json, in the place of one that was measured alike.
void add_results(const std::string& folder, const Results& results);

apps::Table to_table(const std::vector<Results>& results);

}  // namespace pursuit::lm

#pragma once
#include <string>
#include <vector>

#include "apps/lm/config.h"
#include "apps/run/evaluations.h"
#include "apps/study/comparison_page.h"
#include "apps/study/run_page.h"
#include "apps/terminal/table.h"

namespace pursuit::lm {

// What a token is predicted from in an evaluation.
enum class Window { blocks, documents, sliding };
inline std::vector<Choice<Window>> choices_of(Window) {
  return {{"blocks", Window::blocks, "the text cut into windows"},
          {"documents", Window::documents, "a window never reaches into another one"},
          {"sliding", Window::sliding, "a window that moves on by one token, as published"}};
}

// One perplexity of one set of weights.
struct Results : apps::Conditions {
  std::string split;   // train, valid, test
  std::string window;  // the name of a Window
  std::string attack;  // empty, or "AAA, rate 0.015, NLTK's stop words kept, seed 0"
  double loss = 0;     // mean cross-entropy, nats
  double perplexity() const;
};
// See apps/run/evaluations.h.
nlohmann::ordered_json to_json(const Results& results);
void from_json(const nlohmann::ordered_json& json, std::vector<Results>& all);
bool alike(const Results& a, const Results& b);

using RunRecord = apps::RunRecord<Config, Results>;
// What reports and comparisons say.
apps::RunPage page_of(RunRecord& run);
apps::Cells cells_of(const Results& results);
apps::ComparedRun compared(const RunRecord& run);
apps::ComparisonPage comparison_page(const std::vector<RunRecord>& runs);

apps::Table to_table(const std::vector<Results>& results);

}  // namespace pursuit::lm

#pragma once
#include <string>
#include <vector>

#include "apps/lm/config.h"
#include "apps/run/evaluations.h"
#include "apps/study/comparison_page.h"
#include "apps/study/run_page.h"
#include "apps/terminal/table.h"

namespace pursuit::lm {

// The context from which an evaluation predicts a token.
enum class Window { blocks, documents, sliding };
inline std::vector<Choice<Window>> choices_of(Window) {
  return {{"blocks", Window::blocks, "the text is cut into windows"},
          {"documents", Window::documents, "windows do not cross documents"},
          {"sliding", Window::sliding, "a window with stride 1, as published"}};
}

// One measured perplexity.
struct Results : apps::Conditions {
  std::string split;           // train, valid, test
  std::string window;          // the name of a Window
  std::string objective = {};  // describe_objective of the run
  std::string attack;  // how words were changed, such as "AAA, rate 0.015, NLTK's stop words kept, seed 0"
  double loss = 0;     // mean cross-entropy, nats
  double perplexity() const;
};
// Entries of eval.json, see apps/run/evaluations.h.
nlohmann::ordered_json to_json(const Results& results);
void from_json(const nlohmann::ordered_json& json, std::vector<Results>& all);
bool alike(const Results& a, const Results& b);

using RunRecord = apps::RunRecord<Config, Results>;
// Contents of reports and comparisons.
apps::RunPage page_of(RunRecord& run);
apps::Cells cells_of(const Results& results);
apps::ComparedRun compared(const RunRecord& run);
apps::ComparisonPage comparison_page(const std::vector<RunRecord>& runs);

apps::Table to_table(const std::vector<Results>& results);

}  // namespace pursuit::lm

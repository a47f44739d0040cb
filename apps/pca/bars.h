#pragma once
#include <string>
#include <vector>

#include "apps/pca/result.h"
#include "apps/terminal/table.h"

namespace pursuit::pca {

// What a faithful reproduction of a figure shows, with what came out.
struct Bar {
  std::string experiment, what;
  double low, high, got;
  bool met() const { return got >= low && got <= high; }  // false for NaN
};
// The bars of a result; none if its settings are not the figure's, with or without --full, and of the
// published script's gradient.
std::vector<Bar> bars_of(const Result& result);
apps::Table table_of(const std::vector<Bar>& bars);

}  // namespace pursuit::pca

#pragma once
#include <string>
#include <vector>

#include "apps/page/charts.h"
#include "apps/pca/result.h"

namespace pursuit::pca {

// The charts of a figure from the results that it shows, at least one: mean over the runs with a 95 %
// confidence band (sweeps: one standard deviation), with the theory dashed over it.
std::vector<apps::LineChart> charts_of(const Figure& figure, const std::vector<Result>& results);

// All results in the folder, of any experiment. Throws Error if one is damaged.
std::vector<Result> results_in(const std::string& folder);

// FOLDER/report.html: every figure whose results are all there, and the bars.
void write_page(const std::string& folder);

}  // namespace pursuit::pca

#pragma once
#include <complex>
#include <string>
#include <vector>

#include "apps/page/report.h"
#include "apps/run/evaluations.h"
#include "apps/run/json.h"
#include "apps/terminal/table.h"
#include "data/text/batches.h"
#include "nn/qk_matrix.h"
#include "nn/transformer_lm.h"

namespace pursuit::lm {

// What one head's attention is like.
struct HeadFacts {
  int64_t layer = 0, head = 0;
  double entropy = 0;                             // nats, mean over queries and sequences
  nn::QkStatistics w;                             // of its query-key matrix
  std::vector<std::complex<double>> eigenvalues;  // of it, by falling modulus
};

struct Inspection {
  apps::Conditions conditions;  // of the weights and the text, whose tokens `count` are
  std::string split;
  int64_t tokens = 0;       // of a window
  int64_t sequences = 0;    // that the entropy is the mean of
  double temperature = 0;   // that the scores are divided by
  double even_entropy = 0;  // of causal attention that is even over all a query sees: mean of log t
  std::vector<HeadFacts> heads;

  std::vector<double> propagation(const HeadFacts& head) const;  // rho_i, see nn/qk_matrix.h
};

// Over the first `sequences` rows of a text; none leaves the entropy 0.
Inspection inspect(const nn::TransformerLm& model, data::TextBatches& rows, int64_t sequences);

// Means over all heads, for the metrics: attention_entropy, qk_trace, qk_norm, qk_trace_of_square,
// qk_concentration.
nlohmann::ordered_json summary(const Inspection& inspection);

nlohmann::ordered_json to_json(const Inspection& inspection);
Inspection inspection_from_json(const nlohmann::ordered_json& json);
void write_inspection(const std::string& folder, const Inspection& inspection);  // inspect.json of a run
apps::Table to_table(const Inspection& inspection);
void add_inspection(apps::Report& report, const Inspection& inspection);

}  // namespace pursuit::lm

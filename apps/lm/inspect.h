#pragma once
#include <complex>
#include <string>
#include <vector>

#include "apps/page/report.h"
#include "apps/run/evaluations.h"
#include "apps/run/json.h"
#include "apps/terminal/table.h"
#include "data/text/batches.h"
#include "nn/inspection.h"
#include "nn/qk_matrix.h"
#include "nn/transformer_lm.h"

namespace pursuit::lm {

// Statistics of one head's attention.
struct HeadFacts {
  int64_t layer = 0, head = 0;
  double entropy = 0;                             // nats, mean over queries and sequences
  nn::QkStatistics w;                             // of the query-key matrix W_QK
  std::vector<std::complex<double>> eigenvalues;  // of W_QK, by descending modulus
  // Monte Carlo value of the propagation, by token; empty in older files. See nn/qk_matrix.h.
  std::vector<double> simulated_propagation;
};

struct Inspection {
  apps::Conditions conditions;  // weights and text; `count` is the text's number of tokens
  std::string split;
  int64_t tokens = 0;       // per window
  int64_t sequences = 0;    // over which the entropy is averaged
  double temperature = 0;   // divisor of the attention scores
  double even_entropy = 0;  // entropy of uniform attention: causal, the mean of log t over positions t
  std::vector<HeadFacts> heads;
  std::vector<nn::LayerMeasures> layers = {};  // of `lm inspect`; none after training

  std::vector<double> propagation(const HeadFacts& head) const;  // rho_i, see nn/qk_matrix.h
  // Largest difference of rho_i from its Monte Carlo value; NaN without one.
  double propagation_error(const HeadFacts& head) const;
};

// Averages over so many rows, spread over the text.
Inspection inspect(const nn::TransformerLm& model, const data::TextBatches& rows, int64_t sequences);

// Shows the model the same rows, in batches of a few.
void show_rows(const nn::TransformerLm& model, const data::TextBatches& rows, int64_t sequences,
               nn::AttentionInspection& inspection);

// For the metrics: means over all heads under the keys attention_entropy, qk_trace, qk_norm, qk_trace_of_square
// and qk_concentration, and the largest under propagation_error.
nlohmann::ordered_json summary(const Inspection& inspection);

nlohmann::ordered_json to_json(const Inspection& inspection);
Inspection inspection_from_json(const nlohmann::ordered_json& json);
// To inspect.json of the run that the conditions name; see apps::write_inspection.
void write_inspection(const std::string& folder, const Inspection& inspection);
apps::Table to_table(const Inspection& inspection);
void add_inspection(apps::Report& report, const Inspection& inspection);

}  // namespace pursuit::lm

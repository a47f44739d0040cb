#include <cmath>

#include "engine/ops.h"
#include "nn/adaptive_softmax.h"
#include "nn/metrics.h"
#include "tests/goldens/cases.h"

namespace pursuit::goldens {

void layernorm_case(Golden& g) {
  g.output("y", layer_norm(g.input("x"), g.input("weight"), g.input("bias"), g.number("eps")));
}

void gelu_case(Golden& g) {
  if (g.has_attribute("form") && g.word("form") != "erf")
    fail("goldens", "form is '" + g.word("form") + "', the engine has erf");
  g.output("y", gelu(g.input("x")));
}

void cross_entropy_case(Golden& g) {
  g.output("loss", cross_entropy(g.input("x"), g.constant("y"), g.number("label_smoothing"),
                                 g.integer("ignore_index")));
}

void embedding_case(Golden& g) { g.output("y", embedding(g.constant("ids"), g.input("weight"))); }

void patchify_case(Golden& g) {
  g.output("tokens", patchify(g.input("x"), g.input("weight"), g.input("bias")));
}

void adaptive_softmax_case(Golden& g) {
  std::vector<int64_t> cutoffs;
  for (double c : g.numbers("cutoffs")) cutoffs.push_back(int64_t(c));
  nn::AdaptiveSoftmax model(g.integer("dim"), g.integer("classes"), cutoffs, g.number("div_value"),
                            g.flag("head_bias") ? nn::OutputBias::head : nn::OutputBias::none);
  for (const nn::NamedTensor& p : model.parameters()) {
    if (g.device().is_cuda()) *p.tensor = p.tensor->detach().to(g.device()).requires_grad();
    g.adopt(p.name, *p.tensor);
  }
  const Tensor x = g.input("x"), y = g.constant("y");
  g.output("loss", model.loss(x, y));
  NoGrad off;
  g.output("target_log_prob", model.target_log_prob(x, y));
  g.output("log_prob", model.log_prob(x));
}

void bilinear_case(Golden& g) {
  if (g.has_attribute("align_corners") && g.flag("align_corners"))
    fail("goldens", "align_corners is 1, the engine has 0");
  g.output("y", upsample_bilinear(g.input("x"), g.integer("H"), g.integer("W")));
}

void miou_case(Golden& g) {
  const int64_t classes = g.integer("classes");
  nn::ConfusionMatrix matrix(classes, g.integer("ignore_index"));
  matrix.add(g.stored("in.pred"), g.stored("in.label"));
  std::vector<int64_t> counts;
  for (int64_t l = 0; l < classes; ++l)
    for (int64_t p = 0; p < classes; ++p) counts.push_back(matrix.at(l, p));
  // Counts are exact whatever the dtype of the run.
  const std::vector<double> golden = g.stored("out.confusion").to_vector();
  if (golden.size() != counts.size()) fail("goldens", "out.confusion does not have classes^2 entries");
  int64_t wrong = 0;
  for (size_t i = 0; i < golden.size(); ++i) wrong += golden[i] != double(counts[i]);
  g.judge("out.confusion", double(wrong), 0, std::to_string(wrong) + " entries differ");
  g.compare("out.iou", from_vector(matrix.iou(), {classes}));
  g.compare("out.accuracy", from_vector(matrix.accuracy(), {classes}));
  g.judge("mean_iou", std::fabs(matrix.mean_iou() - g.number("mean_iou")), 1e-12);
  g.judge("mean_accuracy", std::fabs(matrix.mean_accuracy() - g.number("mean_accuracy")), 1e-12);
  g.judge("pixel_accuracy", std::fabs(matrix.overall_accuracy() - g.number("pixel_accuracy")), 1e-12);
}

}  // namespace pursuit::goldens

#include "engine/ops.h"
#include "tests/goldens/cases.h"

namespace pursuit::goldens {

namespace {

Pair pair_of(const Golden& g, const std::string& name) {
  const std::vector<double> both = g.numbers(name);
  return {int64_t(both.at(0)), int64_t(both.at(1))};
}

}  // namespace

void conv2d_case(Golden& g) {
  const Tensor bias = g.has("in.bias") ? g.input("bias") : Tensor();
  g.output("y", conv2d(g.input("x"), g.input("weight"), bias,
                       {.stride = pair_of(g, "stride"),
                        .padding = pair_of(g, "padding"),
                        .dilation = pair_of(g, "dilation"),
                        .groups = g.integer("groups")}));
}

void max_pool2d_case(Golden& g) {
  g.output("y", max_pool2d(g.input("x"), {.kernel = pair_of(g, "kernel"),
                                          .stride = pair_of(g, "stride"),
                                          .padding = pair_of(g, "padding"),
                                          .dilation = pair_of(g, "dilation")}));
}

void avg_pool2d_case(Golden& g) {
  g.output("y", avg_pool2d(g.input("x"), {.kernel = pair_of(g, "kernel"),
                                          .stride = pair_of(g, "stride"),
                                          .padding = pair_of(g, "padding"),
                                          .count_include_pad = g.flag("count_include_pad")}));
}

}  // namespace pursuit::goldens

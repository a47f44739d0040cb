#include "engine/ops.h"
#include "tests/goldens/cases.h"

namespace pursuit::goldens {

void elementwise_case(Golden& g) {
  const Tensor a = g.input("a"), b = g.input("b"), p = g.input("p");
  g.output("silu", silu(a));
  g.output("sin", sin(a));
  g.output("cos", cos(a));
  g.output("maximum", maximum(a, b));
  g.output("minimum", minimum(a, b));
  g.output("pow", pow(p, 1.5));
  g.output("pow_tensor", pow(p, flip(p, {0})));
  g.output("reciprocal", 2 / p);
  g.output("difference", 1.0 - a);
}

void along_case(Golden& g) {
  const Tensor x = g.input("x"), y = g.input("y");
  g.output("gather", gather(x, 1, g.constant("index")));
  g.output("flip", flip(x, {0, 2}));
  g.output("cumsum", cumsum(x, 1));
  g.output("where", where(g.constant("condition"), x, y));
  g.output("max", max_along(x, 1).values);
  g.output("min", min_along(x, -1, true).values);
}

void compared_case(Golden& g) {
  const Tensor a = g.input("a"), b = g.input("b");
  g.output("lerp", lerp(a, b, 0.3));
  g.output("eq", a == b);
  g.output("ne", a != b);
  g.output("lt", a < b);
  g.output("le", a <= b);
  g.output("eq_number", a == 0.5);
  g.output("ne_number", a != 0.5);
  g.output("lt_number", a < 0.5);
  g.output("le_number", a <= 0.5);
  g.output("argmax", argmax(a));
  g.output("max_indices", max_along(a, 0).indices);
  g.output("min_indices", min_along(b, 1).indices);
}

}  // namespace pursuit::goldens

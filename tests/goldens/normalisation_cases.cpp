#include "engine/ops.h"
#include "tests/goldens/cases.h"

namespace pursuit::goldens {

void batch_norm_case(Golden& g) {
  // f32 whatever the dtype of the run, and changed in place.
  const auto running = [&](const char* name) {
    const Tensor given = g.constant(name), own = empty(given.shape(), DType::f32, given.device());
    copy_values(own, given);
    return own;
  };
  const Tensor mean = running("running_mean"), variance = running("running_var");
  g.output("y", batch_norm(g.input("x"), g.input("weight"), g.input("bias"),
                           {mean, variance, {}, g.number("momentum")}, g.flag("training"), g.number("eps")));
  g.compare("out.running_mean", mean);
  g.compare("out.running_var", variance);
}

void group_norm_case(Golden& g) {
  g.output("y", group_norm(g.input("x"), g.integer("groups"), g.input("weight"), g.input("bias"),
                           g.number("eps")));
}

void instance_norm_case(Golden& g) {
  g.output("y", instance_norm(g.input("x"), g.input("weight"), g.input("bias"), g.number("eps")));
}

void rms_norm_case(Golden& g) { g.output("y", rms_norm(g.input("x"), g.input("weight"), g.number("eps"))); }

}  // namespace pursuit::goldens

#include "nn/locater.h"

#include "engine/base/error.h"
#include "engine/ops.h"
#include "nn/qk_matrix.h"

namespace pursuit::nn {

Tensor locater(const Tensor& query, const Tensor& key, const LocaterOptions& options) {
  if (options.form == LocaterForm::tr2 && !options.allow_unbounded)
    fail("locater",
         "the form tr2 has no lower bound: training with it diverges unless W is symmetric; use anchor "
         "or var, or allow it explicitly");
  const Tensor trace = qk_trace(query, key);
  const double width = double(query.size(-1));
  switch (options.form) {
    case LocaterForm::anchor:
      return sum(qk_frobenius2(query, key) + options.beta * square(trace - options.c));
    case LocaterForm::var:
      return sum(qk_frobenius2(query, key) - square(trace) / width);
    case LocaterForm::fro:
      return sum(qk_frobenius2(query, key));
    case LocaterForm::tr2:
      return sum(qk_trace_of_square(query, key) - square(trace) / width);
  }
  fail("locater", "unknown form");
}

}  // namespace pursuit::nn

#include <cmath>
#include <functional>
#include <sstream>

#include "engine/driver/arrangement.h"
#include "engine/driver/driver.h"
#include "engine/ops.h"

namespace pursuit::driver {

namespace {

struct Outcome {
  Tensor y;
  std::vector<Tensor> grads;  // undefined if the input has none
};

using Run = OperatorInfo::Run;

bool wants_gradient(const Input& in) { return in.given && !in.integer && !in.constant; }

Outcome run(const Run& f, const std::vector<Input>& inputs, const std::vector<Tensor>& values,
            const std::function<Tensor(const Tensor&)>& cotangent) {
  std::vector<Tensor> leaves = values;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (wants_gradient(inputs[i])) leaves[i].requires_grad();
  Outcome o;
  o.y = f(leaves);
  if (o.y.needs_grad()) o.y.backward(cotangent(o.y));
  for (const Tensor& t : leaves) o.grads.push_back(t.grad());
  o.y = o.y.detach();
  return o;
}

// The tolerance of one element whose f64 value is r, in a tensor whose largest value is m, is
//   tolerance * (unit * (a |r| + b m) + c d).
// unit is one ulp at 1. f32 arithmetic alone is within 4 ulp of r. The term in m covers the rounding that
// remains when terms as large as the largest result cancel. d is the average change of the tensor's elements
// in f64 when every input changes by an ulp (a few entries that cross a kink do not affect it): rounding
// inside the operator may cause several times that. In bf16, arithmetic is f32 and the result is rounded
// once, which is half an ulp of r; only tensors saved for backward were rounded before. Under `broadcast`
// sums have equal terms, whose rounding errors add up instead of cancelling: four times the tolerance.
struct Bar {
  double unit, a, b, c;
};

Bar bar_of(DType d) {
  if (d == DType::bf16) return {0x1p-7, 1, 0.5, 4};
  return {d == DType::f32 ? 0x1p-23 : 0x1p-52, 4, 4, 16};
}

// A tensor of the f64 run, and its average change d.
struct Wanted {
  Tensor value;
  double moves = 0;
};

struct Comparer {
  Report& report;
  std::string where;

  void fail(const std::string& what) { report.failures.push_back(where + ": " + what); }

  void compare(const std::string& name, const Tensor& got, const Wanted& want, DType dtype, double tolerance,
               double floor = 0) {
    if (!got.defined() || !want.value.defined()) {
      if (got.defined() != want.value.defined())
        fail(name + (got.defined() ? " is there, but not in f64" : " is missing"));
      return;
    }
    if (got.shape() != want.value.shape() || got.dtype() != dtype)
      return fail(name + " is " + got.str() + ", need " + pursuit::name_of(dtype) + want.value.shape().str());
    const std::vector<double> g = got.to_vector(), w = want.value.to_vector();
    double m = 0;
    for (double v : w) m = std::max(m, std::fabs(v));
    const Bar bar = bar_of(dtype);
    report.compared += int64_t(g.size());
    double worst = 0;
    std::string failure;
    for (size_t i = 0; i < g.size(); ++i) {
      const double error = std::fabs(g[i] - w[i]);
      const double limit =
          is_floating(dtype)
              ? tolerance * (bar.unit * (bar.a * std::fabs(w[i]) + bar.b * m) + bar.c * want.moves) + floor
              : 0;
      const bool finite = std::isfinite(error) && std::isfinite(w[i]) && std::isfinite(limit);
      const double ratio = !finite ? INFINITY : error == 0 ? 0 : error / limit;
      if (ratio > 1 && ratio > worst) {
        std::ostringstream text;
        text.precision(9);
        text << name << " element " << i << " is " << g[i] << ", need " << w[i] << " within " << limit;
        failure = text.str();
      }
      worst = std::max(worst, ratio);
    }
    report.worst = std::max(report.worst, worst);
    if (!failure.empty()) fail(failure);
  }
};

double mean_distance(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector(), y = b.to_vector();
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += std::fabs(x[i] - y[i]);
  return x.empty() ? 0 : sum / double(x.size());
}

// Every element times 1 + unit * u, u uniform in [-1, 1].
Tensor nudged(const Tensor& t, double unit, uint64_t stream) {
  if (!t.defined() || !is_floating(t.dtype())) return t;
  return t * affine(uniform(t.shape(), -1, 1, 2, stream, t.dtype()), unit, 1);
}

std::string describe(const OperatorInfo::Case& c) {
  std::string text;
  for (const Input& in : c.inputs)
    text += (text.empty() ? "" : " ") + (in.given ? in.shape.str() : std::string("-"));
  return text;
}

// Checks one sample in one dtype: draws the inputs, then runs every arrangement.
class CaseCheck {
 public:
  CaseCheck(const OperatorInfo::Case& c, int index, DType dtype, Device device, Report& report)
      : case_(c), dtype_(dtype), device_(device), report_(report), index_(index) {}

  void run_all(bool layouts) {
    for (Arrangement a : arrangements) {
      if (!layouts && a != Arrangement::contiguous) continue;
      Comparer to{report_, "sample " + std::to_string(index_) + " (" + describe(case_) + ") " +
                               pursuit::name_of(dtype_) + " " + name_of(a)};
      const int64_t violations = guard_violations();
      try {
        one(a, to);
        check_guards();
      } catch (const std::exception& e) {
        to.fail(e.what());
      }
      if (guard_violations() != violations) to.fail("a write outside of a tensor's memory");
    }
  }

 private:
  void one(Arrangement a, Comparer& to) {
    std::vector<Tensor> exact, seen;
    std::vector<Arranged> memory;
    memory.reserve(case_.inputs.size() + 2);
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      const Input& in = case_.inputs[i];
      if (!in.given) {
        exact.emplace_back();
        seen.emplace_back();
        continue;
      }
      const Tensor values = draw(in, a, dtype_, i);
      exact.push_back(in.integer ? values : values.to(DType::f64));
      memory.emplace_back(values, a, device_);
      seen.push_back(memory.back().view());
    }

    Tensor cotangent;
    const Outcome want = run(case_.run, case_.inputs, exact, [&](const Tensor& y) {
      cotangent = draw({y.shape(), -1, 1}, a, dtype_, 100);
      return cotangent.to(y.dtype());
    });
    const Outcome got = run(case_.run, case_.inputs, seen, [&](const Tensor& y) {
      memory.emplace_back(cotangent.to(y.dtype()), a, y.device());
      return memory.back().view();
    });
    const Moves moves = measure(want, exact, cotangent);
    const double tolerance = case_.tolerance * (a == Arrangement::broadcast ? 4 : 1);
    // Losses are f32 for any dtype of the logits, and so are results that a wide input promotes; results that
    // are always f64 stay f64.
    DType result = want.y.dtype() == DType::f64 ? dtype_ : want.y.dtype();
    if (dtype_ == DType::bf16 && got.y.dtype() == DType::f32) result = DType::f32;
    to.compare("the result", got.y, {want.y, moves.y}, result, tolerance);
    for (size_t i = 0; i < seen.size(); ++i)
      if (wants_gradient(case_.inputs[i]))
        to.compare("gradient " + std::to_string(i), got.grads[i], {want.grads[i], moves.grads[i]},
                   seen[i].dtype(), tolerance);
    for (const Arranged& m : memory)
      if (m.touched()) to.fail("an input was written to");

    if (a != Arrangement::contiguous) return;
    const Outcome again = run(case_.run, case_.inputs, seen,
                              [&](const Tensor& y) { return cotangent.to(y.dtype()).to(y.device()); });
    if (again.y.to_vector() != got.y.to_vector()) to.fail("a second run gives another result");
    if (case_.reference && dtype_ == DType::f32) against_reference(exact, want, cotangent, to);
  }

  struct Moves {
    double y = 0;
    std::vector<double> grads;
  };
  Moves measure(const Outcome& want, const std::vector<Tensor>& exact, const Tensor& cotangent) const {
    constexpr int tries = 3;
    Moves moves{0, std::vector<double>(exact.size(), 0)};
    const double unit = bar_of(dtype_).unit;
    for (uint64_t k = 0; k < tries; ++k) {
      std::vector<Tensor> near;
      for (const Tensor& t : exact) near.push_back(nudged(t, unit, 100 * k + near.size()));
      const Outcome other = run(case_.run, case_.inputs, near, [&](const Tensor& y) {
        return nudged(cotangent.to(y.dtype()), unit, 100 * k + 99);
      });
      moves.y += mean_distance(other.y, want.y) / tries;
      for (size_t i = 0; i < exact.size(); ++i)
        if (want.grads[i].defined()) moves.grads[i] += mean_distance(other.grads[i], want.grads[i]) / tries;
    }
    return moves;
  }

  // f64 against f64: the same sums in another order. A reference may have no gradients.
  void against_reference(const std::vector<Tensor>& exact, const Outcome& got, const Tensor& cotangent,
                         Comparer& to) {
    const Outcome want =
        run(case_.reference, case_.inputs, exact, [&](const Tensor& y) { return cotangent.to(y.dtype()); });
    const double tolerance = 1e4 * case_.tolerance, floor = 1e-12;
    to.compare("against the reference, the result", got.y, {want.y}, got.y.dtype(), tolerance, floor);
    for (size_t i = 0; i < exact.size(); ++i)
      if (want.grads[i].defined())
        to.compare("against the reference, gradient " + std::to_string(i), got.grads[i], {want.grads[i]},
                   DType::f64, tolerance, floor);
  }

  const OperatorInfo::Case& case_;
  DType dtype_;
  Device device_;
  Report& report_;
  int index_;
};

}  // namespace

Report check(const OperatorInfo& op, Device device, const std::vector<DType>& dtypes, bool layouts) {
  Report report{op.name, 0, 0, 0, {}};
  const std::vector<OperatorInfo::Case> cases = op.cases();
  for (size_t i = 0; i < cases.size(); ++i) {
    bool empty = false;
    for (const Input& in : cases[i].inputs) empty = empty || (in.given && in.shape.numel() == 0);
    for (DType d : dtypes) {
      const int64_t before = report.compared;
      CaseCheck(cases[i], int(i), d, device, report).run_all(layouts);
      if (!empty && report.compared == before)
        report.failures.push_back("sample " + std::to_string(i) + ": nothing was compared");
    }
    ++report.samples;
  }
  if (report.compared == 0) report.failures.push_back("no sample has an element");
  // Only central differences detect a derivative that is wrong in the same way in every dtype.
  constexpr int64_t elements = 24;
  const Report numeric = check_gradients(op, elements);
  report.compared += numeric.compared;
  report.worst = std::max(report.worst, numeric.worst);
  for (const std::string& f : numeric.failures) report.failures.push_back("derivative: " + f);
  return report;
}

}  // namespace pursuit::driver

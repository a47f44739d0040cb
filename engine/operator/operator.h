#pragma once
#include <concepts>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/observer.h"
#include "engine/core/shapes_only.h"
#include "engine/core/tape.h"
#include "engine/core/tensor.h"

// An operator is one type in one file:
//
//   struct Square {
//     static constexpr const char* name = "square";
//     Tensor x;                                                 // options, and what backward needs
//     Tensor forward(const Tensor& in) { x = in; return in * in; }
//     Grads backward(const Tensor& gy, Needs) { return {2.0 * x * gy}; }
//     static std::vector<Sample<Square>> samples() { return {{{}, {{{3, 5}}}}}; }
//   };
//   PURSUIT_OPERATOR(Square)
//   Tensor square(const Tensor& x) { return apply(Square{}, x); }
//
// The object is the context of one call, like PyTorch's ctx: the caller sets its options, forward saves what
// backward needs (from detached inputs), and the tape keeps it until backward has run, which returns one
// gradient per input (undefined: none). Backward throws if a saved input or result was overwritten meanwhile.
// (While forward runs, no other thread may copy these tensors.) Optional members:
// - `Needs needs = {}`, set before forward, tells which gradients will be needed, and so what to save.
// - `Tensor so_far = {}`, set before backward, is the first input's gradient so far (undefined: none), to
//   which backward adds.
// - `Tensor reference(inputs...) const` computes the same from other operators; the driver compares the two.
namespace pursuit {

// Which inputs need a gradient.
struct Needs {
  uint32_t bits = 0;
  bool operator[](int i) const { return bits >> i & 1; }
};

// One input of a sample, filled with uniform numbers in [lo, hi); integers are drawn from lo to hi - 1.
struct Input {
  Shape shape;
  double lo = -1, hi = 1;
  bool integer = false;
  bool given = true;      // false: an optional input, left out
  bool constant = false;  // needs no gradient, although floating point
  bool wide = false;      // f32 where the others are bf16
};
inline Input labels(Shape shape, int64_t classes) { return {shape, 0, double(classes), true}; }
inline Input constant(Input in) {
  in.constant = true;
  return in;
}
inline Input wide(Input in) {
  in.wide = true;
  return in;
}
inline Input left_out() { return {{}, 0, 0, false, false}; }

// Options and inputs that the test driver runs the operator with. `tolerance` scales the driver's bound for
// operators that sum many rounded terms; give the reason beside it.
template <class Op> struct Sample {
  Op op;
  std::vector<Input> inputs;
  double tolerance = 1;
};

// Registry entry for the test driver, the benchmark and the list of operators; calls do not use it.
struct OperatorInfo {
  using Run = std::function<Tensor(const std::vector<Tensor>&)>;
  struct Case {
    std::vector<Input> inputs;
    double tolerance;
    Run run;
    Run reference;  // empty if the operator has none
  };
  std::string name;
  std::vector<Case> (*cases)();  // builds new ones at every call
};
std::vector<OperatorInfo>& inventory();

template <class Op>
concept Operator = requires(Op op, const Tensor& t, Needs needs) {
  { Op::name } -> std::convertible_to<const char*>;
  &Op::forward;
  { op.backward(t, needs) } -> std::same_as<Grads>;
  { Op::samples() } -> std::same_as<std::vector<Sample<Op>>>;
};

// The inputs that some sample leaves out are optional.
template <Operator Op> Needs optional_inputs() {
  static const Needs optional = [] {
    Needs found;
    for (const Sample<Op>& s : Op::samples())
      for (size_t i = 0; i < s.inputs.size(); ++i) found.bits |= uint32_t(!s.inputs[i].given) << i;
    return found;
  }();
  return optional;
}
template <Operator Op, size_t N> void require_inputs(const Tensor* const (&inputs)[N]) {
  for (size_t i = 0; i < N; ++i)
    if (!inputs[i]->defined() && !optional_inputs<Op>()[int(i)]) fail_undefined(Op::name, i + 1, N);
}

// An operator of any number of inputs, all defined. It takes them as a list and is not told which of them
// need a gradient.
template <class Op>
concept TakesList = requires(Op op, const std::vector<Tensor>& inputs) {
  op.forward(inputs);
};

// Calls forward(operator) and records the operator if an input needs a gradient.
template <Operator Op, class Forward>
Tensor call(Op op, std::span<Argument> arguments, Needs needs, const Forward& forward) {
  OperatorCall scope(Op::name);
  const auto held = std::make_shared<Op>(std::move(op));
  const bool on_tape = grad_enabled() && needs.bits != 0;
  if (on_tape) {
    if constexpr (requires { held->needs = needs; }) held->needs = needs;
    for (Argument& a : arguments) a.handles = a.tensor->storage().use_count();
  }
  Tensor y = forward(*held);
  if (on_tape && is_floating(y.dtype())) {  // integers have no gradient
    constexpr bool adds = requires { held->so_far = Tensor(); };
    const auto backward = [held, needs](const Tensor& gy, [[maybe_unused]] Tensor&& so_far) {
      const OperatorCall scope(Op::name, /*backward*/ true);
      if constexpr (adds) held->so_far = std::move(so_far);
      return held->backward(gy, needs);
    };
    record(y, Op::name, arguments, backward, adds);
  }
  scope.end(y);
  return y;
}

template <Operator Op, std::same_as<Tensor>... In> Tensor apply(Op op, const In&... inputs) {
  require_inputs<Op>({&inputs...});
  Needs needs;
  int i = 0;
  ((needs.bits |= uint32_t(inputs.needs_grad()) << i++), ...);
  Argument arguments[] = {{&inputs, 0}...};
  return call(std::move(op), arguments, needs, [&](Op& held) { return held.forward(inputs.detach()...); });
}
template <Operator Op>
requires TakesList<Op> Tensor apply(Op op, const std::vector<Tensor>& inputs) {
  Needs needs;
  std::vector<Argument> arguments;
  for (const Tensor& t : inputs) {
    if (!t.defined()) fail_undefined(Op::name, arguments.size() + 1, inputs.size());
    if (t.needs_grad()) needs.bits = ~uint32_t(0);
    arguments.push_back({&t, 0});
  }
  return call(std::move(op), arguments, needs, [&](Op& held) {
    std::vector<Tensor> values;
    for (const Tensor& t : inputs) values.push_back(t.detach());
    return held.forward(values);
  });
}

template <class Op, class Base, class... In> constexpr size_t arity(Tensor (Base::*)(In...)) {
  return sizeof...(In);
}

template <Operator Op> std::vector<OperatorInfo::Case> cases_of() {
  std::vector<OperatorInfo::Case> cases;
  for (const Sample<Op>& s : Op::samples()) {
    OperatorInfo::Case c{s.inputs, s.tolerance, {}, {}};
    if constexpr (TakesList<Op>) {
      c.run = [op = s.op](const std::vector<Tensor>& in) { return apply(Op(op), in); };
    } else {
      constexpr auto every = std::make_index_sequence<arity<Op>(&Op::forward)>{};
      if (c.inputs.size() != every.size())
        fail(Op::name, "a sample gives " + std::to_string(c.inputs.size()) + " inputs, the operator takes " +
                           std::to_string(every.size()));
      c.run = [op = s.op, every]<class V>(const V& in) {
        return [&]<size_t... I>(std::index_sequence<I...>) { return apply(Op(op), in[I]...); }
        (every);
      };
      if constexpr (requires { &Op::reference; })
        c.reference = [op = s.op, every]<class V>(const V& in) {
          return [&]<size_t... I>(std::index_sequence<I...>) { return op.reference(in[I]...); }
          (every);
        };
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

// Stores a function and makes no samples: an error before main() could not be reported.
template <Operator Op> struct RegisterOperator {
  RegisterOperator() { inventory().push_back({Op::name, cases_of<Op>}); }
};

#define PURSUIT_OPERATOR(Op) static const ::pursuit::RegisterOperator<Op> register_##Op;

// Turns device and dtype into template arguments, once per call. Does nothing while ShapesOnly is active. GPU
// kernels exist only in builds with a real or simulated GPU. If only the device matters: calls f(Cpu{} or
// Cuda{}).
template <class F> void dispatch(Device device, [[maybe_unused]] const char* where, const F& f) {
  if (shapes_only()) return;
  if (!device.is_cuda()) return f(Cpu{});
#ifdef PURSUIT_GPU
  f(Cuda{});
#else
  fail(where, "this build has no CUDA");
#endif
}

// Calls f(Cpu{} or Cuda{}, Type<T>{}); f64 exists on the CPU only.
template <class F> void dispatch(const Tensor& x, const char* where, const F& f) {
  if (shapes_only()) return;
  if (x.device().is_cuda()) {
#ifdef PURSUIT_GPU
    switch (x.dtype()) {
      case DType::f32:
        return f(Cuda{}, Type<float>{});
      case DType::bf16:
        return f(Cuda{}, Type<bf16>{});
      default:
        fail(where, std::string("no cuda kernel for ") + name_of(x.dtype()) + "; use f32 or bf16");
    }
#else
    fail(where, "this build has no CUDA");
#endif
  }
  switch (x.dtype()) {
    case DType::f64:
      return f(Cpu{}, Type<double>{});
    case DType::f32:
      return f(Cpu{}, Type<float>{});
    case DType::bf16:
      return f(Cpu{}, Type<bf16>{});
    default:
      fail(where, std::string("takes f32, bf16 or f64, got ") + x.str());
  }
}

// The same if an f32 tensor may be combined with a bf16 one: calls f(Cpu{} or Cuda{}, Type<T>{}, Type<U>{});
// U is the type of `wide`: T, or float if T is bf16.
template <class F> void dispatch(const Tensor& x, const Tensor& wide, const char* where, const F& f) {
  dispatch(x, where, [&]<class Dev, class T>(Dev dev, Type<T> type) {
    if constexpr (std::is_same_v<T, bf16>) {
      if (wide.dtype() == DType::f32) return f(dev, type, Type<float>{});
    }
    f(dev, type, type);
  });
}

// A device for which no kernel is overloaded.
struct Absent {
  template <class Dev> Absent(Dev) : name(Dev::name) {}
  const char* name;
};

// Calls Op::kernel or Op::gradient for the device, or throws if there is none. Detected by overload
// resolution: with a requires expression nvcc 13 compiles the kernels' host half and drops the device code.
template <class Op, class Dev, class... A> auto launch(Dev dev, const A&... a)
    -> decltype(Op::kernel(dev, a...)) {
  Op::kernel(dev, a...);
}
template <class Op, class... A> void launch(Absent dev, const A&...) {
  fail(Op::name, std::string("no ") + dev.name + " kernel");
}
template <class Op, class Dev, class... A> auto launch_gradient(Dev dev, const A&... a)
    -> decltype(Op::gradient(dev, a...)) {
  Op::gradient(dev, a...);
}
template <class Op, class... A> void launch_gradient(Absent dev, const A&...) {
  fail(Op::name, std::string("no ") + dev.name + " gradient kernel");
}

}  // namespace pursuit

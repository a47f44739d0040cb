#include "nn/quantization/convert.h"

#include <cmath>
#include <map>

#include "nn/quantization/config.h"

namespace pursuit::nn {

namespace {

constexpr std::string_view scale_ending = "_scale", grid_ending = "grid";

// f with the weight's name before its message.
template <class F> auto naming(const std::string& name, const F& f) {
  try {
    return f();
  } catch (const Error& e) {
    fail("quantize", name + ": " + e.what());
  }
}

}  // namespace

void quantize_weights(const Module& from, Module& to, const WeightOptions& options) {
  std::map<std::string, const Tensor*> given;
  for (const NamedTensor& t : from.state()) given[t.name] = t.tensor;
  std::map<std::string, const NamedTensor*> own;
  const std::vector<NamedTensor> state = to.state();
  for (const NamedTensor& t : state) own[t.name] = &t;
  for (const NamedTensor& t : state) {
    if (t.name.ends_with(scale_ending)) {
      const std::string name = t.name.substr(0, t.name.size() - scale_ending.size());
      const CodedWeight coded = naming(name, [&] { return coded_weight(*given.at(name), options); });
      copy_values(*t.tensor, coded.scale);
      if (const Tensor& weight = *own.at(name)->tensor; weight.dtype() == DType::i8)
        copy_values(weight, coded.codes);
    } else if (const auto found = given.find(t.name);
               found != given.end() && t.tensor->dtype() != DType::i8) {
      copy_values(*t.tensor, t.rounded
                                 ? naming(t.name, [&] { return rounded_weight(*found->second, options); })
                                 : found->second->detach());
    }
  }
}

void check_quantized(const Module& model) {
  if (!model.quantization()) return;
  const double levels = double((1 << model.quantization()->config.activation_bits) - 1);
  for (const NamedTensor& t : model.buffers()) {
    const bool is_grid = t.name.ends_with(grid_ending);
    if (!is_grid && !t.name.ends_with(scale_ending)) continue;
    const std::vector<double> values = t.tensor->to_vector();
    for (size_t i = 0; i < values.size(); ++i) {
      const bool is_zero_point = is_grid && i == 1;
      const double v = values[i];
      if (is_zero_point ? !(v >= 0 && v <= levels && v == std::floor(v)) : !(v > 0 && std::isfinite(v)))
        fail("quantization", t.name + ": number " + std::to_string(i) + " is " + std::to_string(v) +
                                 ", need " +
                                 (is_zero_point ? "a whole number of 0 to " + std::to_string(int64_t(levels))
                                                : "a finite one above 0") +
                                 "; the file is damaged");
    }
  }
}

}  // namespace pursuit::nn

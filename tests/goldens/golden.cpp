#include "tests/goldens/golden.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "engine/operator/copy.h"
#include "engine/ops.h"

namespace pursuit::goldens {

namespace {

using Json = nlohmann::json;

std::string sentence(double error, double bar) {
  std::ostringstream text;
  text.precision(3);
  text << error << " of " << bar;
  return text.str();
}

double largest(const std::vector<double>& values) {
  double m = 0;
  for (double v : values) {
    if (!std::isfinite(v)) return v;
    m = std::max(m, std::fabs(v));
  }
  return m;
}

double norm(const std::vector<double>& values) {
  double s = 0;
  for (double v : values) s += v * v;
  return std::sqrt(s);
}

std::vector<double> difference(std::vector<double> a, const std::vector<double>& b) {
  for (size_t i = 0; i < b.size(); ++i) a[i] -= b[i];
  return a;
}

}  // namespace

double distance(const std::vector<double>& a, const std::vector<double>& b, DType dtype) {
  const std::vector<double> off = difference(a, b);
  return dtype == DType::bf16 ? norm(off) : largest(off);
}

int digits_of(DType dtype) { return dtype == DType::bf16 ? 8 : 21; }

Golden::Golden(const std::string& path, Device device, DType dtype)
    : file_(load_safetensors(path)), device_(device), dtype_(dtype) {
  const auto errors = file_.metadata.find("f32_err");
  if (errors != file_.metadata.end()) f32_err_ = Json::parse(errors->second, nullptr, false);
  if (!f32_err_.is_object()) fail("goldens", "the attribute f32_err is not a JSON object");
}

// Uses Veltkamp's splitting, which keeps the leading digits of an f64.
void round_stored(const Tensor& x, const Rounding& rounding) {
  NoGrad off;
  const Tensor y = x.detach() * rounding.grid, c = y * (std::ldexp(1, 53 - rounding.digits) + 1);
  copy_strided(x, (c - (c - y)) * (1 / rounding.grid));
}

void Golden::round_given(const Rounding& rounding) {
  rounding_ = rounding;
  for (auto& [name, t] : file_.tensors) {
    const bool given = name.starts_with("in.") || name.starts_with("param.") || name.starts_with("up.");
    if (!given || !is_floating(t.dtype())) continue;
    t = t.to(DType::f64);
    round_stored(t, rounding);
  }
}

const std::string& Golden::word(const std::string& name) const {
  const auto found = file_.metadata.find(name);
  if (found == file_.metadata.end()) fail("goldens", "the attribute '" + name + "' is missing");
  return found->second;
}

double Golden::number(const std::string& name) const {
  const Json value = Json::parse(word(name), nullptr, false);
  if (value.is_boolean()) return value.get<bool>();
  if (!value.is_number())
    fail("goldens", "the attribute '" + name + "' is '" + word(name) + "', need a number");
  return value.get<double>();
}

int64_t Golden::integer(const std::string& name) const {
  const double v = number(name);
  if (v != std::floor(v) || std::fabs(v) > 1e15)
    fail("goldens", "the attribute '" + name + "' is '" + word(name) + "', need a whole number");
  return int64_t(v);
}

std::vector<double> Golden::numbers(const std::string& name) const {
  const Json value = Json::parse(word(name), nullptr, false);
  std::vector<double> all;
  for (const Json& v : value.is_array() ? value : Json::array({value})) {
    if (!v.is_number()) fail("goldens", "the attribute '" + name + "' is '" + word(name) + "', need numbers");
    all.push_back(v.get<double>());
  }
  return all;
}

Tensor Golden::scalar(const std::string& name) const {
  const Tensor t = full({}, number(name), dtype_, device_);
  if (rounding_) round_stored(t, *rounding_);
  return t;
}

const Tensor& Golden::stored(const std::string& name) const {
  const auto found = file_.tensors.find(name);
  if (found == file_.tensors.end()) fail("goldens", "the tensor '" + name + "' is missing");
  return found->second;
}

std::vector<std::string> Golden::names(const std::string& prefix) const {
  std::vector<std::string> found;
  for (const auto& [name, t] : file_.tensors)
    if (name.rfind(prefix, 0) == 0) found.push_back(name.substr(prefix.size()));
  return found;
}

Tensor Golden::constant(const std::string& name) const {
  const Tensor& t = stored("in." + name);
  return is_floating(t.dtype()) ? t.to(dtype_).to(device_) : t.to(device_);
}

Tensor Golden::input(const std::string& name) {
  stored("grad." + name);
  Tensor t = constant(name).detach();
  t.requires_grad();
  leaves_.push_back({name, t});
  return t;
}

void Golden::adopt(const std::string& name, Tensor& parameter) {
  const Tensor& values = stored("in." + name);
  if (values.shape() != parameter.shape())
    fail("goldens", "in." + name + " is " + values.str() + ", the module has " + parameter.str());
  stored("grad." + name);
  copy_values(parameter.detach(), values);
  leaves_.push_back({name, parameter});
}

void Golden::output(const std::string& name, const Tensor& y) {
  const std::string up = "up." + name;
  compare("out." + name, y);
  if (!has(up)) return;
  seeded_.push_back(name);
  const Tensor weights = stored(up).to(y.dtype()).to(y.device());
  if (weights.numel() != y.numel())
    fail("goldens", up + " is " + weights.str() + ", the output is " + y.str());
  const Tensor part = sum(y.reshape(weights.shape()) * weights);
  loss_ = loss_.defined() ? loss_ + part : part;
}

void Golden::compare_if_there(const std::string& full_name, const Tensor& y) {
  if (has(full_name)) compare(full_name, y);
}

void Golden::compare(const std::string& name, const Tensor& y) {
  const Tensor& golden = stored(name);
  if (!y.defined()) {
    verdict_.failures.push_back(name + " was not computed");
    return;
  }
  // Losses are stored as [1].
  const bool scalar = golden.numel() == 1 && y.numel() == 1;
  if (y.shape() != golden.shape() && !scalar) {
    verdict_.failures.push_back(name + " is " + y.shape().str() + ", need " + golden.shape().str());
    return;
  }
  const std::vector<double> got = y.to_vector();
  computed_[name] = got;
  const std::vector<double> want = golden.to_vector();
  if (dtype_ == DType::bf16 && kinks_ && name.starts_with("grad."))
    compare_share(name, got);
  else
    compare_values(name, got, want);
  verdict_.compared += golden.numel();
}

void Golden::compare_with_exact(const std::string& name, const Tensor& y) {
  computed_[name] = y.to_vector();
  if (dtype_ != DType::f64) compare_values(name, computed_[name], exact_.at(name));
}

void Golden::compare_values(const std::string& name, const std::vector<double>& got,
                            const std::vector<double>& want) {
  const std::vector<double> zero(want.size());
  const auto twins = bars_.find(name);
  judge(name, distance(got, want, dtype_),
        std::max(twins != bars_.end() ? 2 * twins->second : 0,
                 relative_bar(name) * distance(want, zero, dtype_)));
}

// f32: the file's max(1e-5, 10 f32_err), where f32_err is what another framework's run was off. f64 starts
// from the same inputs and is left with the rounding of the file to f32 (6e-8); but the optimizer has weights
// in f32 in every dtype, which is as much as the losses after its update can tell.
double Golden::relative_bar(const std::string& name) const {
  if (dtype_ == DType::bf16) return 0x1p-7;
  if (dtype_ == DType::f64 && name != "out.losses") return 1e-6;
  const auto f32_err = f32_err_.find(name);
  return std::max(1e-5, f32_err != f32_err_.end() && f32_err->is_number() ? 10 * f32_err->get<double>() : 0);
}

// If rounding moves an entry across a soft threshold, its gradient jumps by the whole entry, and every
// iteration amplifies it, so no tolerance in norm is possible against the file, whose numbers were not
// rounded. With the same rounded input only rounding inside the run can do so: at most 2 % of the entries may
// be off by more than 2^-7 of themselves, for rounding the result, plus 2^-6 of the mean entry.
void Golden::compare_share(const std::string& name, const std::vector<double>& got) {
  const std::vector<double>& want = same_input_.at(name);
  const double mean = norm(want) / std::sqrt(double(want.size()));
  size_t off = 0;
  for (size_t i = 0; i < want.size(); ++i)
    off += !(std::fabs(got[i] - want[i]) <= 0x1p-7 * std::fabs(want[i]) + 0x1p-6 * mean);
  judge(name, double(off) / double(want.size()), 0.02,
        std::to_string(off) + " of " + std::to_string(want.size()) + " entries are off, 2 % may be");
}

void Golden::judge(const std::string& what, double error, double bar, const std::string& text) {
  const bool ok = error <= bar && std::isfinite(bar);
  const double ratio = error == 0 && ok ? 0 : ok ? error / bar : bar > 0 ? error / bar : INFINITY;
  const std::string line = what + ": " + (text.empty() ? "error " + sentence(error, bar) + " allowed" : text);
  verdict_.lines.push_back(line);
  if (!ok) verdict_.failures.push_back(line);
  if (verdict_.worst_name.empty() || !(ratio <= verdict_.worst)) {
    verdict_.worst = ratio;
    verdict_.worst_name = what;
  }
}

void Golden::backward() {
  for (const std::string& name : names("up."))
    if (std::find(seeded_.begin(), seeded_.end(), name) == seeded_.end())
      verdict_.failures.push_back("the file has up." + name + ", but this case computes no such output");
  for (const std::string& name : names("grad."))
    if (std::none_of(leaves_.begin(), leaves_.end(), [&](const Leaf& l) { return l.name == name; }))
      verdict_.failures.push_back("the file has grad." + name + ", but this case has no such input");
  if (leaves_.empty()) return;
  if (!loss_.defined()) fail("goldens", "no output has an upstream gradient (up.*)");
  loss_.backward();
  for (const Leaf& leaf : leaves_) compare("grad." + leaf.name, leaf.tensor.grad());
}

}  // namespace pursuit::goldens

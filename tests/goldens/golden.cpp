#include "tests/goldens/golden.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "engine/copy.h"
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

double distance(const std::vector<double>& a, const std::vector<double>& b) { return norm(difference(a, b)); }

Golden::Golden(const std::string& path, Device device, DType dtype)
    : file_(load_safetensors(path)), device_(device), dtype_(dtype) {
  const auto errors = file_.metadata.find("f32_err");
  if (errors != file_.metadata.end()) f32_err_ = Json::parse(errors->second, nullptr, false);
  if (!f32_err_.is_object()) fail("goldens", "the attribute f32_err is not a JSON object");
}

void round_to_bf16(const Tensor& x, double grid) {
  NoGrad off;
  copy_strided(x, (x.detach() * grid).to(DType::bf16).to(DType::f64) * (1 / grid));
}

void Golden::round_given(double grid) {
  grid_ = grid;
  for (auto& [name, t] : file_.tensors) {
    const bool given = name.starts_with("in.") || name.starts_with("param.") || name.starts_with("up.");
    if (!given || !is_floating(t.dtype())) continue;
    t = t.to(DType::f64);
    round_to_bf16(t, grid);
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
  if (grid_) round_to_bf16(t, *grid_);
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
  if (dtype_ != DType::bf16)
    compare_elements(name, difference(got, want), want);
  else if (kinks_ && name.starts_with("grad."))
    compare_share(name, got);
  else
    compare_norm(name, got, want);
  verdict_.compared += golden.numel();
}

void Golden::compare_with_exact(const std::string& name, const Tensor& y) {
  computed_[name] = y.to_vector();
  if (dtype_ == DType::bf16) compare_norm(name, computed_[name], exact_.at(name));
}

void Golden::compare_norm(const std::string& name, const std::vector<double>& got,
                          const std::vector<double>& want) {
  judge(name, distance(got, want), std::max(2 * bars_.at(name), 0x1p-7 * norm(want)));
}

double Golden::f32_err(const std::string& full_name) const {
  const auto found = f32_err_.find(full_name);
  return found != f32_err_.end() && found->is_number() ? found->get<double>() : 0;
}

// f32: max|x - golden| <= max(1e-5, 10 f32_err) max|golden|. f64 starts from the same inputs and is left with
// the rounding of the file to f32 (6e-8).
void Golden::compare_elements(const std::string& name, const std::vector<double>& off,
                              const std::vector<double>& golden) {
  const double relative = dtype_ == DType::f64 ? 1e-6 : std::max(1e-5, 10 * f32_err(name));
  judge(name, largest(off), relative * largest(golden));
}

// At a soft threshold a gradient jumps by all of an entry that rounding puts on the other side, and every
// iteration multiplies it: against the file, whose numbers were not rounded, nothing can be said in norm. On
// the same rounded input only the rounding within the run can do so: 2 % of the entries may be off, by more
// than 2^-7 of themselves, for the rounded result, and 2^-6 of what entries are in the mean.
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

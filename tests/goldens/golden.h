#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/files/safetensors.h"

namespace pursuit::goldens {

// To so many binary digits. Another `grid` than 1, up to 2, rounds as finely, but other numbers up and down.
struct Rounding {
  int digits;
  double grid;
};
// Of what a run of the dtype stores. bf16's eight. f32 has 24; three are taken off for the sums and
// exponentials within an operator, whose error is small beside storing only in bf16: they are why the file's
// bar, too, is ten times what one run was off.
int digits_of(DType dtype);
// Rounds an f64 tensor where it lies.
void round_stored(const Tensor& x, const Rounding& rounding);

// How far apart two results of a run of the dtype are: in norm in bf16, by the largest entry otherwise.
double distance(const std::vector<double>& a, const std::vector<double>& b, DType dtype);

// One golden file while it is held against the engine: gives a case its inputs and attributes, compares what
// the case computes, and at last runs the tape for the file's loss sum(up.o * out.o) and compares the
// gradients. What a case asks for and the file lacks is an Error; what differs is a failure that is noted,
// and the rest still runs.
class Golden {
 public:
  Golden(const std::string& path, Device device, DType dtype);
  // Rounds every tensor that the case starts from (in.*, param.*, up.*, scalars).
  void round_given(const Rounding& rounding);
  using Values = std::map<std::string, std::vector<double>>;
  const Values& computed() const { return computed_; }  // of every comparison, so far
  // What an f32 or bf16 run is held against: what an f64 run computed, what it computes of the file's tensors
  // rounded, and how far rounding takes it. The bar of a comparison is twice that; at least 2^-7 of the
  // golden's norm in bf16, the file's own bar in f32.
  void hold_against(Values exact, Values same_input, std::map<std::string, double> errors) {
    exact_ = std::move(exact);
    same_input_ = std::move(same_input);
    bars_ = std::move(errors);
  }

  // The case has soft thresholds, where gradients jump: a bf16 run holds them by the share of entries.
  void expect_kinks() { kinks_ = true; }

  DType dtype() const { return dtype_; }
  Device device() const { return device_; }

  // Attributes. Words stand bare, everything else is a JSON value.
  bool has_attribute(const std::string& name) const { return file_.metadata.count(name) > 0; }
  const std::string& word(const std::string& name) const;
  double number(const std::string& name) const;
  int64_t integer(const std::string& name) const;
  bool flag(const std::string& name) const { return integer(name) != 0; }
  std::vector<double> numbers(const std::string& name) const;  // of a list
  Tensor scalar(const std::string& name) const;                // a number that an operator takes as a tensor

  // Tensors, by their full names; as stored, on the CPU.
  bool has(const std::string& name) const { return file_.tensors.count(name) > 0; }
  const Tensor& stored(const std::string& name) const;
  std::vector<std::string> names(const std::string& prefix) const;  // without the prefix

  // in.NAME on the device. Floating ones have the run's dtype. An input takes a gradient, and grad.NAME must
  // be there.
  Tensor input(const std::string& name);
  Tensor constant(const std::string& name) const;
  // A parameter of a module: takes in.NAME's values, and grad.NAME is its gradient.
  void adopt(const std::string& name, Tensor& parameter);

  // Compares with out.NAME. Where the file has up.NAME the output takes part in the loss.
  void output(const std::string& name, const Tensor& y);
  // Compares with any tensor of the file.
  void compare(const std::string& full_name, const Tensor& y);
  // The same where the file has it: intermediate values.
  void compare_if_there(const std::string& full_name, const Tensor& y);
  // Compares with the f64 run, where no file has the tensor; that run only gives it.
  void compare_with_exact(const std::string& full_name, const Tensor& y);
  // Holds `got` against `want`, by the bar of that name.
  void compare_values(const std::string& full_name, const std::vector<double>& got,
                      const std::vector<double>& want);
  // Notes a number that the case computed by itself; error and bar in one unit.
  void judge(const std::string& what, double error, double bar, const std::string& text = "");
  // Runs the tape and compares every grad.*.
  void backward();

  struct Verdict {
    double worst = 0;  // largest error over its bar
    std::string worst_name;
    int64_t compared = 0;
    std::vector<std::string> failures;
    std::vector<std::string> lines;  // one a comparison
  };
  const Verdict& verdict() const { return verdict_; }

 private:
  struct Leaf {
    std::string name;
    Tensor tensor;
  };
  double relative_bar(const std::string& name) const;
  void compare_share(const std::string& name, const std::vector<double>& got);

  TensorFile file_;
  Device device_;
  DType dtype_;
  nlohmann::json f32_err_ = nlohmann::json::object();
  bool kinks_ = false;
  std::optional<Rounding> rounding_;
  Values exact_, same_input_, computed_;
  std::map<std::string, double> bars_;
  std::vector<Leaf> leaves_;
  Tensor loss_;
  std::vector<std::string> seeded_;
  Verdict verdict_;
};

}  // namespace pursuit::goldens

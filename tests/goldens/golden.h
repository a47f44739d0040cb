#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/files/safetensors.h"

namespace pursuit::goldens {

// Rounding to `digits` binary digits. A `grid` between 1 and 2 has the same precision, but rounds other
// numbers up and down.
struct Rounding {
  int digits;
  double grid;
};
// The digits for a run of the dtype: 8 for bf16; for f32 21 of its 24, which allows for the sums and
// exponentials inside an operator. In bf16 their error is small compared with storing. For the same reason
// the file's own tolerance is ten times the error of one run.
int digits_of(DType dtype);
// Rounds an f64 tensor in place.
void round_stored(const Tensor& x, const Rounding& rounding);

// The distance of two results: the norm for bf16, the largest entry otherwise.
double distance(const std::vector<double>& a, const std::vector<double>& b, DType dtype);

// The comparison of one golden file with the engine: provides the inputs and attributes of a case, compares
// its results, then runs backward for the file's loss sum(up.o * out.o) and compares the gradients. Data
// missing in the file is an Error; a difference is recorded as a failure, and the rest still runs.
class Golden {
 public:
  Golden(const std::string& path, Device device, DType dtype);
  // Rounds every tensor that the case starts from (in.*, param.*, up.*, scalars).
  void round_given(const Rounding& rounding);
  using Values = std::map<std::string, std::vector<double>>;
  const Values& computed() const { return computed_; }  // of all comparisons so far
  // Sets the references for an f32 or bf16 run: the values of an f64 run, those of an f64 run on rounded
  // inputs, and the errors caused by rounding. The tolerance of a comparison is twice that error, and at
  // least 2^-7 of the golden's norm in bf16, or the file's own tolerance in f32.
  void hold_against(Values exact, Values same_input, std::map<std::string, double> errors) {
    exact_ = std::move(exact);
    same_input_ = std::move(same_input);
    bars_ = std::move(errors);
  }

  // The case has soft thresholds, where gradients jump: a bf16 run compares them by the share of wrong
  // entries.
  void expect_kinks() { kinks_ = true; }

  DType dtype() const { return dtype_; }
  Device device() const { return device_; }

  // Attributes. Words are plain text, everything else is a JSON value.
  bool has_attribute(const std::string& name) const { return file_.metadata.count(name) > 0; }
  const std::string& word(const std::string& name) const;
  double number(const std::string& name) const;
  int64_t integer(const std::string& name) const;
  bool flag(const std::string& name) const { return integer(name) != 0; }
  std::vector<double> numbers(const std::string& name) const;  // a list
  Tensor scalar(const std::string& name) const;                // a number as a tensor argument

  // Tensors by their full names, as stored, on the CPU.
  bool has(const std::string& name) const { return file_.tensors.count(name) > 0; }
  const Tensor& stored(const std::string& name) const;
  std::vector<std::string> names(const std::string& prefix) const;  // without the prefix

  // in.NAME on the device; floating-point tensors are converted to the run's dtype. An input requires a
  // gradient, and the file must have grad.NAME.
  Tensor input(const std::string& name);
  Tensor constant(const std::string& name) const;
  // A parameter of a module: takes in.NAME's values, and grad.NAME is its gradient.
  void adopt(const std::string& name, Tensor& parameter);

  // Compares with out.NAME. If the file has up.NAME, the output is part of the loss.
  void output(const std::string& name, const Tensor& y);
  // Compares with any tensor of the file.
  void compare(const std::string& full_name, const Tensor& y);
  // The same if the file has the tensor, for intermediate values.
  void compare_if_there(const std::string& full_name, const Tensor& y);
  // Compares a tensor that no file has with the f64 run, which only records it.
  void compare_with_exact(const std::string& full_name, const Tensor& y);
  // Compares `got` with `want`, with the tolerance of that name.
  void compare_values(const std::string& full_name, const std::vector<double>& got,
                      const std::vector<double>& want);
  // Records an error that the case computed itself, and its tolerance in the same unit.
  void judge(const std::string& what, double error, double bar, const std::string& text = "");
  // Runs backward and compares every grad.*.
  void backward();

  struct Verdict {
    double worst = 0;  // largest ratio of error to tolerance
    std::string worst_name;
    int64_t compared = 0;
    std::vector<std::string> failures;
    std::vector<std::string> lines;  // one per comparison
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

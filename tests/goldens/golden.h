#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/files/safetensors.h"
#include "engine/tensor.h"

namespace pursuit::goldens {

// One golden file while it is held against the engine: gives a case its inputs and attributes, compares what
// the case computes, and at last runs the tape for the file's loss sum(up.o * out.o) and compares the
// gradients. What a case asks for and the file lacks is an Error; what differs is a failure that is noted,
// and the rest still runs.
class Golden {
 public:
  Golden(const std::string& path, Device device, DType dtype);

  DType dtype() const { return dtype_; }
  Device device() const { return device_; }

  // Attributes. Words stand bare, everything else is a JSON value.
  bool has_attribute(const std::string& name) const { return file_.metadata.count(name) > 0; }
  const std::string& word(const std::string& name) const;
  double number(const std::string& name) const;
  int64_t integer(const std::string& name) const;
  bool flag(const std::string& name) const { return integer(name) != 0; }
  std::vector<double> numbers(const std::string& name) const;  // of a list

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
  // Notes a number that the case computed by itself; error and bar in one unit.
  void judge(const std::string& what, double error, double bar, const std::string& text = "");
  // The case has soft thresholds, on whose other side rounding to bf16 may put an entry: wider bars there.
  void expect_kinks() { kinks_ = true; }

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
  double f32_err(const std::string& full_name) const;
  void compare_elements(const std::string& name, const Tensor& y, const Tensor& golden);
  void compare_norm(const std::string& name, const Tensor& y, const Tensor& golden);

  TensorFile file_;
  Device device_;
  DType dtype_;
  nlohmann::json f32_err_ = nlohmann::json::object();
  bool kinks_ = false;
  std::vector<Leaf> leaves_;
  Tensor loss_;
  std::vector<std::string> seeded_;
  Verdict verdict_;
};

}  // namespace pursuit::goldens

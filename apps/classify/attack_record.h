#pragma once
#include <string>
#include <vector>

#include "nn/attacks/registry.h"

namespace pursuit::classify {

// What an attack did to every picture.
class AttackRecord {
 public:
  explicit AttackRecord(const attacks::Settings& settings) : settings_(settings) {}

  // Counts pictures that the attack showed the model.
  void count(const Tensor& images) { queries_ += images.size(0); }
  // A batch before and after; `pictures` are their indices in the data set. Without settings.pixel a picture
  // has fallen if the model's own prediction has changed, whatever the label.
  void add(const Tensor& before, const Tensor& after, const Tensor& labels,
           const std::vector<int64_t>& pictures, const attacks::Logits& logits);

  double mean_l2() const;  // of all pictures; those that were not changed count with 0
  // Appends a line of JSON to the file:
  //   {"run", "attacked_by": another run or "", "attack", "space", "budget", "settings", "arguments", "pictures",
  //    "right": before the attack, "queries": mean per picture, "fell": [indices], "l2": [of these],
  //    "linf": [of these]}
  void append_to(const std::string& file, const std::string& run, const std::string& attacked_by = "") const;

 private:
  attacks::Settings settings_;
  int64_t queries_ = 0, pictures_ = 0, right_ = 0;
  double l2_ = 0;
  std::vector<int64_t> fell_;
  std::vector<attacks::Length> lengths_;  // of those that fell
};

}  // namespace pursuit::classify

#include "apps/classify/attack_record.h"

#include <algorithm>
#include <fstream>

#include "apps/run/json.h"
#include "engine/ops.h"

namespace pursuit::classify {

void AttackRecord::add(const Tensor& before, const Tensor& after, const Tensor& labels,
                       const std::vector<int64_t>& pictures, const attacks::Logits& logits) {
  const NoGrad off;
  const std::vector<attacks::Length> lengths = attacks::lengths(before, after, settings_);
  const std::vector<double> was = argmax(logits(before)).to_vector(), is = argmax(logits(after)).to_vector(),
                            wanted = settings_.pixel ? labels.to_vector() : was;
  for (size_t i = 0; i < lengths.size(); ++i) {
    ++pictures_;
    l2_ += lengths[i].l2;
    if (was[i] != wanted[i]) continue;
    ++right_;
    if (is[i] == wanted[i]) continue;
    fell_.push_back(pictures[i]);
    lengths_.push_back(lengths[i]);
  }
}

double AttackRecord::mean_l2() const { return l2_ / double(std::max<int64_t>(pictures_, 1)); }

void AttackRecord::append_to(const std::string& file, const std::string& run,
                             const std::string& attacked_by) const {
  nlohmann::ordered_json line = {{"run", run},
                                 {"attacked_by", attacked_by},
                                 {"attack", settings_.name},
                                 {"space", settings_.pixel ? "pixel" : "normalised"},
                                 {"budget", settings_.budget},
                                 {"settings", settings_.describe()},
                                 {"arguments", settings_.arguments()},
                                 {"pictures", pictures_},
                                 {"right", right_},
                                 {"queries", double(queries_) / double(std::max<int64_t>(pictures_, 1))},
                                 {"fell", fell_},
                                 {"l2", nlohmann::ordered_json::array()},
                                 {"linf", nlohmann::ordered_json::array()}};
  for (const attacks::Length& length : lengths_) {
    line["l2"].push_back(float(length.l2));
    line["linf"].push_back(float(length.linf));
  }
  std::ofstream out(file, std::ios::app);
  out << line.dump() << "\n" << std::flush;
  if (!out) fail("eval", "--attack-records: cannot write to '" + file + "'");
}

}  // namespace pursuit::classify

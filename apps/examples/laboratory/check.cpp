#include <algorithm>
#include <cstdio>

#include "apps/examples/laboratory/laboratory.h"
#include "apps/examples/laboratory/programs.h"
#include "apps/examples/laboratory/wrong.h"
#include "cuda/runtime.h"
#include "engine/driver/report.h"

namespace pursuit::laboratory {

namespace {

bool starts_with(const std::string& text, const char* begin) { return text.rfind(begin, 0) == 0; }

// The laboratory's operators by name; the inventory also has the engine's.
std::vector<OperatorInfo> operators() {
  std::vector<OperatorInfo> ours;
  for (const OperatorInfo& op : inventory())
    for (const char* subject : {"softmax_", "matmul_", "cpu_matmul_"})
      if (starts_with(op.name, subject)) ours.push_back(op);
  std::sort(ours.begin(), ours.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return ours;
}

}  // namespace

int check(const std::vector<std::string>& names) {
  driver::Counts counts;
  std::vector<OperatorInfo> chosen;
  for (const OperatorInfo& op : operators())
    if (names.empty() || std::count(names.begin(), names.end(), op.name)) chosen.push_back(op);
  for (const std::string& name : names)
    if (std::none_of(chosen.begin(), chosen.end(), [&](const auto& op) { return op.name == name; }))
      fail("laboratory", "got '" + name +
                             "', need a version this build has: softmax_1, matmul_1 (GPU) or "
                             "cpu_matmul_1 and following; see: laboratory check");
  const bool gpu = cuda::available();
  if (!gpu) std::fprintf(stderr, "kernels are not checked: %s\n", cuda::why_not().c_str());
  set_memory_debug(true);
  for (const OperatorInfo& op : chosen) {
    const bool on_cpu = starts_with(op.name, "cpu_");
    if (!on_cpu && !gpu) continue;
    // Versions are f32 only: bf16 would change the storage, but teach nothing new.
    const driver::Report r = driver::check(op, on_cpu ? cpu : cuda_device(), {DType::f32});
    counts.add(r.ok());
    driver::print(r, "check");
  }
  if (names.empty()) {
    for (const OperatorInfo& op : wrong_operators()) {
      const driver::Report r = driver::check(op, cuda_device(), {DType::f32});
      counts.add(!r.ok());
      std::printf("wrong %-26s %s\n", op.name.c_str(),
                  r.ok() ? "NOT CAUGHT: FAILED" : ("caught  " + r.failures[0]).c_str());
    }
    driver::run_canaries(false, counts);
  }
  return counts.close();
}

}  // namespace pursuit::laboratory

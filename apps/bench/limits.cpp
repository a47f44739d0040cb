#include "apps/bench/limits.h"

#include <fmt/format.h>

#include <chrono>
#include <map>

#include "engine/cpu/bf16_tiles.h"
#include "engine/cpu/rows.h"
#include "engine/cpu/work.h"
#include "engine/inspect/call_times.h"

namespace pursuit::bench {

namespace {

using Json = nlohmann::ordered_json;

// What products, attention and norms take of a step on the CPU, and what they multiply and add.
struct StepParts {
  std::map<std::string, double> share;  // of the step's time; together 1
  double multiply_adds = 0;
};
constexpr const char* part_names[] = {"products", "attention", "norms", "rest"};

StepParts parts_of(const std::function<void()>& step) {
  static const std::map<std::string, std::vector<std::string>> calls = {
      {"products",
       {"linear", "mlp", "matmul", "patchify", "conv2d", "linear_cross_entropy", "int8_linear", "int8_mlp",
        "int8_log_prob"}},
      {"attention", {"attention", "rpc_attention", "cross_attention", "quantized_attention", "softmax"}},
      {"norms", {"layer_norm", "rms_norm", "batch_norm", "group_norm"}}};
  const int64_t before = multiply_adds_done;
  const auto start = std::chrono::steady_clock::now();
  const CallTimes times;
  step();
  const double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  StepParts parts;
  parts.multiply_adds = double(multiply_adds_done - before);
  for (const char* name : part_names) parts.share[name] = 0;
  const auto seconds = times.seconds();
  for (const auto& [part, names] : calls)
    for (const std::string& name : names)
      if (const auto found = seconds.find(name); found != seconds.end())
        parts.share[part] += found->second / all;
  for (const char* name : part_names)
    if (std::string(name) != "rest") parts.share["rest"] -= parts.share[name];
  parts.share["rest"] += 1;
  return parts;
}

std::string factors_of(const Workload& workload, DType dtype) {
  using enum Workload::Factors;
  if (workload.factors == int8_and_f32) return "int8 and f32";
  if (dtype == DType::f32 || workload.factors == f32) return "f32";
  return workload.factors == as_dtype ? "bf16" : "bf16 and f32";
}

}  // namespace

void add_limits(Json& line, const Workload& workload, const Step& step, const Peak& peak, DType dtype,
                double ms) {
  const StepParts parts = parts_of(step.run);
  const double rate = 2e-6 * parts.multiply_adds / ms;
  const std::string factors = factors_of(workload, dtype);
  line["gflops"] = rate;
  line["factors"] = factors;
  line["peak"] = {{"f32_gflops", peak.f32}, {"bf16_gflops", peak.bf16}, {"memory_gb_s", peak.memory}};
  if (rate > 0 && (factors == "f32" || factors == "bf16")) {
    const bool by_tiles = factors == "bf16" && peak.bf16 > 0;
    const double most = by_tiles ? peak.bf16 : peak.f32;
    line["peak_isa"] = by_tiles ? bf16_instructions() : rows<float>().isa;
    line["peak_gflops"] = most;
    line["of_peak"] = rate / most;
  }
  if (step.weight_bytes > 0)
    line["of_memory"] = 1e-9 * step.weight_bytes * line["items_per_s"].get<double>() / peak.memory;
  for (const char* name : part_names) line["parts_ms"][name] = ms * parts.share.at(name);
}

std::vector<std::string> limit_columns() {
  std::vector<std::string> columns = {"workload", "factors", "threads",     "GFLOP/s",
                                      "peak",     "peak %",  "memory GB/s", "memory %"};
  for (const char* name : part_names) columns.push_back(name + std::string(" ms"));
  return columns;
}

std::vector<std::string> limit_row(const Json& line) {
  const auto share = [&](const char* key) {
    return line.contains(key) ? fmt::format("{:.1f}", 100 * line[key].get<double>()) : "";
  };
  const double rate = line["gflops"].get<double>();
  std::vector<std::string> row = {
      line["workload"].get<std::string>(),
      rate > 0 ? line["factors"].get<std::string>() : "",
      fmt::format("{}", line["threads"].get<int>()),
      rate > 0 ? fmt::format("{:.1f}", rate) : "",
      line.contains("of_peak")
          ? fmt::format("{:.0f} {}", line["peak_gflops"].get<double>(), line["peak_isa"].get<std::string>())
          : "",
      share("of_peak"),
      fmt::format("{:.1f}", line["peak"]["memory_gb_s"].get<double>()),
      share("of_memory")};
  for (const char* name : part_names) {
    const double ms = line["parts_ms"][name].get<double>();
    row.push_back(ms > 0 ? fmt::format("{:.3f}", ms) : "");
  }
  return row;
}

std::string bf16_instructions() { return bf16_tiles() ? bf16_tiles()->isa + std::string("_bf16") : "f32"; }

}  // namespace pursuit::bench

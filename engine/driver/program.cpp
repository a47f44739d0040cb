#include "engine/driver/program.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/driver/driver.h"
#include "engine/driver/report.h"
#include "engine/program/describe.h"

namespace pursuit::driver {

namespace {

// The requested operators (all if none are named) without canaries, sorted, each name once.
std::vector<const OperatorInfo*> chosen(const Options& o, Counts& counts) {
  std::vector<const OperatorInfo*> ops;
  std::set<std::string> wanted(o.names.begin(), o.names.end()), seen;
  for (const OperatorInfo& op : inventory()) {
    if (is_canary(op)) continue;
    if (!seen.insert(op.name).second) {
      std::printf("two operators are called '%s'\n", op.name.c_str());
      counts.add(false);
    }
    if (o.names.empty() || wanted.erase(op.name)) ops.push_back(&op);
  }
  for (const std::string& name : wanted) fail("ops", "no operator is called '" + name + "'; see: ops list");
  std::sort(ops.begin(), ops.end(), [](auto* a, auto* b) { return a->name < b->name; });
  // The build counted the operators in the sources; fewer here means that a registration was lost.
  if (o.names.empty() && int(ops.size()) < o.at_least) {
    std::printf("the inventory holds %zu operators, the sources %d\n", ops.size(), o.at_least);
    counts.add(false);
  }
  return ops;
}

void print_timing(const Timing& t, bool json) {
  const double rate = t.forward > 0 ? double(t.bytes) / t.forward / 1e9 : 0;
  if (json) {
    nlohmann::json line = {{"mode", "bench"},        {"op", t.name},     {"bytes", t.bytes},
                           {"forward_s", t.forward}, {"both_s", t.both}, {"forward_gb_s", rate}};
    std::printf("%s\n", line.dump().c_str());
  } else {
    std::printf("%-26s %10lld bytes  forward %9.2f us %7.2f GB/s  with backward %9.2f us\n", t.name.c_str(),
                static_cast<long long>(t.bytes), t.forward * 1e6, rate, t.both * 1e6);
  }
}

}  // namespace

int run(const Options& o) {
  const Device device = device_from_name(o.device);
  std::vector<DType> dtypes = {DType::f32, DType::bf16};
  if (!o.dtype.empty()) dtypes = {dtype_from_name(o.dtype)};
  if (!is_floating(dtypes[0])) fail("ops", "--dtype is " + o.dtype + ", need f32, bf16 or f64");

  if ((o.mode == "grad" || o.mode == "canaries") && (device.is_cuda() || !o.dtype.empty()))
    fail("ops", o.mode + " runs on the CPU in dtypes of its own; leave out --device and --dtype. " +
                    "`ops check --device cuda` holds the GPU's gradients against the CPU's in f64");

  Counts counts;
  const std::vector<const OperatorInfo*> ops = chosen(o, counts);
  if (o.mode == "list") {
    for (const OperatorInfo* op : ops)
      std::printf("%-26s %zu samples\n", op->name.c_str(), op->cases().size());
    return counts.failed ? 1 : 0;
  }
  std::fprintf(stderr, "%s\n", describe(device).c_str());
  if (o.mode == "bench") {
    for (const OperatorInfo* op : ops) print_timing(bench(*op, device, dtypes[0]), o.json);
    return counts.failed ? 1 : 0;
  }

  set_memory_debug(true);
  if (o.mode != "canaries")
    for (const OperatorInfo* op : ops) {
      const Report r = o.mode == "grad" ? check_gradients(*op) : check(*op, device, dtypes, !o.contiguous);
      counts.add(r.ok());
      print(r, o.mode.c_str(), o.json);
    }
  // The canaries' guards and plain loops need host memory.
  if (o.mode == "canaries" || (o.mode == "check" && o.names.empty() && !o.contiguous))
    run_canaries(o.json, counts);
  return counts.close();
}

}  // namespace pursuit::driver

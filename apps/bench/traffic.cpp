#include "apps/bench/traffic.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/run/json.h"
#include "apps/terminal/print.h"
#include "apps/terminal/table.h"
#include "cuda/traffic.h"

namespace pursuit::bench {

namespace {

using cuda::KernelTraffic;

std::string megabytes(int64_t bytes) { return fmt::format("{:.2f}", double(bytes) / 1e6); }

std::vector<std::string> row_of(const KernelTraffic& k) {
  return {k.kernel,
          fmt::format("{}", k.launches),
          megabytes(k.read),
          megabytes(k.written),
          megabytes(k.read + k.written),
          fmt::format("{:.2f}", double(k.multiply_adds) / 1e6)};
}

}  // namespace

void print_traffic(const Workload& workload, int64_t batch, DType dtype, bool json) {
  const Device device = cuda_device();
  const Step step = workload.make(batch, dtype, device);
  step.run();  // warm-up: allocations, graph capture
  synchronize(device);
  std::vector<KernelTraffic> kernels = cuda::traffic_of([&] {
    step.run();
    synchronize(device);
  });
  KernelTraffic all{"all"};
  for (const KernelTraffic& k : kernels) {
    all.launches += k.launches;
    all.read += k.read;
    all.written += k.written;
    all.multiply_adds += k.multiply_adds;
  }
  std::stable_sort(kernels.begin(), kernels.end(), [](const KernelTraffic& a, const KernelTraffic& b) {
    return a.read + a.written > b.read + b.written;
  });
  kernels.push_back(all);
  if (json) {
    nlohmann::ordered_json line = {{"workload", workload.name}, {"dtype", name_of(dtype)}, {"batch", batch}};
    for (const KernelTraffic& k : kernels)
      line["kernels"].push_back({{"kernel", k.kernel},
                                 {"launches", k.launches},
                                 {"read_bytes", k.read},
                                 {"written_bytes", k.written},
                                 {"multiply_adds", k.multiply_adds}});
    apps::print("{}\n", line.dump());
    return;
  }
  apps::Table table{{"kernel", "launches", "MB read", "written", "both", "M multiply-adds"}, {}};
  for (const KernelTraffic& k : kernels) table.rows.push_back(row_of(k));
  apps::print("{}, {}, batch {}\n{}\n", workload.name, name_of(dtype), batch,
              apps::Lines{apps::to_text(table)});
}

}  // namespace pursuit::bench

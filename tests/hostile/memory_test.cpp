#include "engine/core/memory.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <sstream>

#include "apps/classify/commands.h"
#include "apps/classify/pipeline.h"
#include "apps/command/options.h"
#include "apps/lm/commands.h"
#include "apps/lm/pipeline.h"
#include "apps/run/fields.h"
#include "apps/segment/commands.h"
#include "apps/segment/pipeline.h"
#include "apps/training/free_memory.h"
#include "apps/training/step_memory.h"
#include "engine/core/shapes_only.h"
#include "engine/ops.h"
#include "tests/needs.h"
#include "tests/temporary_folder.h"

using namespace pursuit;

namespace {

void on_shapes(const classify::Config& c) { classify::train_on_shapes(c); }
void on_shapes(const lm::Config& c) { lm::train_on_shapes(c, c.eval_tokens); }
// All built-in scenes have this size.
void on_shapes(const segment::Config& c) { segment::train_on_shapes(c, 96, 128); }

// VmRSS or VmHWM of the process, in bytes.
int64_t process_bytes(const std::string& key) {
  std::ifstream in("/proc/self/status");
  int64_t kib = 0;
  for (std::string word; in >> word;)
    if (word == key + ":") in >> kib;
  return kib * 1024;
}

// Lets VmHWM begin anew, which a container may refuse.
bool reset_peak() { return bool(std::ofstream("/proc/self/clear_refs") << "5" << std::flush); }

// Trains for two steps and compares what the process took for it with the estimate.
template <class Config> void compare(const std::string& options) {
  CAPTURE(options);
  Config config;
  CLI::App parser;
  apps::add_options(parser, config);
  parser.parse("--device cpu --epochs 1 --steps 2 --eval-every 0 " + options);
  const TemporaryFolder folder;
  apps::RunOptions run;
  run.out = folder.file("run");
  run.quiet = true;
  empty_cache();
  malloc_trim(0);
  REQUIRE(reset_peak());
  const int64_t reserved = memory_stats().reserved, resident = process_bytes("VmRSS");
  reset_peak_memory();
  REQUIRE(train(config, run) == 0);
  const int64_t pool = memory_stats().reserved_peak - reserved, process = process_bytes("VmHWM") - resident;
  const std::string file = folder.file("run/config.json");
  config = apps::fields_from_json<Config>(nlohmann::ordered_json::parse(std::ifstream(file)), file);
  const int64_t estimate = apps::memory_of(cpu, [&] { on_shapes(config); });
  const auto mib = [](int64_t bytes) { return double(bytes) / (1 << 20); };
  MESSAGE(fmt::format("estimate {:4.0f} MiB, process {:4.0f} MiB: {:+5.1f} %, pool {:4.0f} MiB: {}",
                      mib(estimate), mib(process), 100 * (mib(estimate) / mib(process) - 1), mib(pool),
                      options));
  CHECK(double(estimate) <= 1.25 * double(process));
  CHECK(double(estimate) >= 0.75 * double(process));
}

const std::string classify_small =
    "--limit 64 --test-limit 8 --batch-size 32 --eval-batch-size 8 --dim 96 --depth 4 --image-size 64 "
    "--patch 4 ";
const std::string lm_small =
    "--batch-size 32 --eval-batch-size 8 --eval-tokens 300 --dim 96 --depth 4 --hidden 384 --context 256 ";
const std::string segment_small =
    "--limit 16 --test-limit 2 --batch-size 16 --eval-batch-size 2 --dim 96 --depth 4 --patch 4 ";

}  // namespace

// The sanitizer takes memory of its own, and minutes.
#ifdef PURSUIT_ASAN
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif
#define STEP_MEMORY_TEST_CASE(name) \
  TEST_CASE(name* NEEDS("step-memory", sanitized || allocator() == "raw" || !reset_peak()))

STEP_MEMORY_TEST_CASE("step memory: classify, estimated within 25 % of what training takes") {
  for (const char* options : {"", "--batch-size 64", "--depth 8", "--image-size 96", "--dtype bf16",
                              "--attention rpc --layer -1", "--attention rpc --dtype bf16 --batch-size 64",
                              "--attention svt --layer -1", "--optimizer sgd --dim 192",
                              "--mixup 0.8 --random-erasing 0.25 --dropout 0.1 --drop-path 0.2 --ema 0.99",
                              "--eval-batch-size 256 --test-limit 256", "--attention scaled-s"})
    compare<classify::Config>(classify_small + options);
}

STEP_MEMORY_TEST_CASE("step memory: lm, estimated within 25 % of what training takes") {
  for (const char* options :
       {"", "--batch-size 64", "--depth 8", "--context 512", "--dtype bf16",
        "--attention rpc --iterated-layers -1", "--attention rpc --dtype bf16 --batch-size 64",
        "--norm post --positions reversed --dropout 0.1", "--cutoffs 20,40 --tied false --optimizer sgd",
        "--level byte --ema 0.99", "--eval-batch-size 128", "--attention linear",
        "--attention gated --locater 0.01", "--attention scaled-alpha"})
    compare<lm::Config>(lm_small + options);
}

STEP_MEMORY_TEST_CASE("step memory: segment, estimated within 25 % of what training takes") {
  for (const char* options :
       {"", "--batch-size 8", "--depth 8", "--patch 8 --dim 192", "--dtype bf16",
        "--attention rpc --decoder mask", "--attention rpc --dtype bf16 --decoder mask",
        "--height 96 --width 96", "--optimizer sgd --dim 192",
        "--scales 0.5,1,1.5 --eval-flip true --stride 48 --eval-batch-size 8", "--ema 0.99 --dropout 0.1"})
    compare<segment::Config>(segment_small + options);
}

TEST_CASE("shapes only: nothing is computed, everything is counted") {
  const MemoryStats before = memory_stats();
  const Tensor weight = ones({3, 4}).requires_grad();
  int64_t peak = 0;
  {
    const ShapesOnly shapes;
    const Tensor x = zeros({int64_t(1) << 30, 4});  // 16 GiB
    const Tensor loss = sum(square(linear(x, weight)));
    loss.backward();
    CHECK(loss.shape() == Shape{});
    CHECK_THROWS_WITH_AS(loss.item(), doctest::Contains("shapes only"), Error);
    CHECK_THROWS_AS(zeros({int64_t(1) << 40, 1 << 20}), Error);
    peak = shapes.peak();
  }
  CHECK(peak > int64_t(40) << 30);
  CHECK(!shapes_only());
  CHECK(memory_stats().allocated - before.allocated <= 1024);
  CHECK(weight.to_vector() == std::vector<double>(12, 1.0));
}

TEST_CASE("require memory: one line with both figures and what to lower") {
  const auto work = [] { zeros({int64_t(1) << 50}); };
  CHECK_THROWS_WITH_AS(apps::require_memory("train", cpu, "--batch-size", work),
                       doctest::Contains("this takes about 4096.0 TiB of memory, and "), Error);
  CHECK_NOTHROW(apps::require_memory("train", cpu, "--batch-size", [] { zeros({1 << 10}); }));
}

TEST_CASE("free memory: the least of the system's and the cgroups' limits") {
  const TemporaryFolder root;
  const auto write = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root.file(path)).parent_path());
    std::ofstream(root.file(path)) << text;
  };
  empty_cache();
  const auto cached = [] { return memory_stats().reserved - memory_stats().allocated; };
  const int64_t left_over = cached();  // segments that other tests' tensors share
  const auto bytes = [&](int processes = 1) {
    apps::FreeMemory free = apps::free_memory(cpu, processes, root.path.string());
    free.bytes -= left_over;
    return free;
  };
  write("proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 4000 kB\n");
  CHECK(bytes().bytes == 4000 * 1024);
  CHECK(bytes().limit == "available memory");
  CHECK(bytes(4).bytes == 1000 * 1024);
  CHECK(bytes(4).limit == "available memory of each of 4 ranks");
  // What the pool holds unused can be allocated too.
  zeros({left_over / 4 + (1 << 20)});  // not in what is left over
  CHECK(cached() >= left_over + (allocator() == "raw" ? 0 : 4 << 20));
  CHECK(bytes().bytes == 4000 * 1024 + cached() - left_over);
  empty_cache();
  // Version 2: of all groups up to the root; the file cache gives way.
  write("proc/self/cgroup", "0::/a/b\n");
  write("sys/fs/cgroup/a/b/memory.max", "max\n");
  write("sys/fs/cgroup/a/b/memory.current", "500\n");
  CHECK(bytes().limit == "available memory");
  write("sys/fs/cgroup/a/memory.max", "3000000\n");
  write("sys/fs/cgroup/a/memory.current", "2500000\n");
  write("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 400000\nactive_file 100000\n");
  CHECK(bytes().bytes == 1000000);
  CHECK(bytes().limit == "the cgroup's limit");
  // Version 1, in a container that does not see its own group's path.
  write("proc/self/cgroup", "5:cpu:/x\n4:memory:/docker/123\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1500000\n");
  write("sys/fs/cgroup/memory/memory.stat",
        "inactive_file 7\ntotal_inactive_file 100000\ntotal_active_file 50000\n");
  CHECK(bytes().bytes == 650000);
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "5000000\n");
  CHECK(bytes().bytes == 0);
  CHECK(apps::format_bytes(650000000) == "620 MiB");
  CHECK(apps::format_bytes(int64_t(3) << 29) == "1.5 GiB");
}

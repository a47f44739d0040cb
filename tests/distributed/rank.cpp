// One rank of a job, for tests of the communicator: started by the unit tests and by real launchers.
//   test_rank operations          every operation, against a plain computation
//   test_rank gradients           gradients of a small model, in slices, against the sum over all ranks
//                                 computed in this process
//   test_rank norms               steps of a model with batch norm, with and without synchronisation
//   test_rank loop                reduces until a signal asks it to stop, or another rank is lost
//   test_rank fail RANK           that rank fails after a few steps
//   test_rank unequal             the ranks reduce tensors of different sizes
//   test_rank absent              the last rank does not join an operation
//   test_rank describe TEXT       checks that all ranks have the same text
// TEST_DEVICE is the device (default: cpu). With TEST_ALONE a single process uses NCCL too. TEST_JOIN,
// TEST_SILENCE and TEST_ANSWER are time limits in ms.
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <thread>

#include "engine/base/error.h"
#include "engine/distributed/communicator.h"
#include "engine/distributed/nccl.h"
#include "engine/ops.h"
#include "engine/program/program.h"
#include "engine/step/graph.h"
#include "nn/init.h"
#include "nn/layers.h"
#include "nn/lookups.h"
#include "nn/norms.h"
#include "nn/rank_gradients.h"
#include "nn/training_step.h"

using namespace pursuit;
using namespace pursuit::distributed;

namespace {

int checks = 0;
Device device = cpu;

void expect(bool ok, const std::string& what) {
  ++checks;
  if (!ok) fail("test", what);
}

std::chrono::milliseconds limit(const char* name, std::chrono::milliseconds otherwise) {
  const char* value = std::getenv(name);
  return value ? std::chrono::milliseconds(std::atoi(value)) : otherwise;
}

std::vector<float> numbers(int rank, int64_t n) {
  const Tensor drawn = normal({n}, 0, 1, /*seed*/ 7, /*stream*/ uint64_t(rank));
  return {drawn.data<float>(), drawn.data<float>() + n};
}

std::vector<float> values(const Tensor& t) {
  const Tensor here = t.to(cpu);
  return {here.data<float>(), here.data<float>() + here.numel()};
}

template <class T> Tensor there(const std::vector<T>& values) {
  return from_vector(values, {int64_t(values.size())}, device);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The tensor has the same bytes on all ranks.
void expect_replicas(Communicator& ranks, const Tensor& t, const std::string& what) {
  Shape shape = t.shape();
  shape.insert(0, ranks.size());
  const Tensor gathered = empty(shape, t.dtype(), device);
  ranks.all_gather(t, gathered);
  const Tensor all = gathered.to(cpu), mine = t.to(cpu);
  for (int other = 0; other < ranks.size(); ++other)
    expect(std::memcmp(static_cast<char*>(all.raw()) + other * t.bytes(), mine.raw(), size_t(t.bytes())) == 0,
           what + ": rank " + std::to_string(other) + " has other bits");
}

// (x0 + x1) + x2 ... in f32, of numbers that may have been rounded to bf16 before.
std::vector<float> sum_in_order(int size, int64_t n, bool rounded) {
  std::vector<float> sum;
  for (int rank = 0; rank < size; ++rank) {
    std::vector<float> x = numbers(rank, n);
    if (rounded)
      for (float& v : x) v = upcast(downcast<bf16>(v));
    if (rank == 0)
      sum = x;
    else
      for (size_t i = 0; i < x.size(); ++i) sum[i] += x[i];
  }
  return sum;
}

// Whether sums are computed in rank order.
bool in_order(const Communicator& ranks, const Options& options) {
  const char* memory = std::getenv("PURSUIT_SHARED_MEMORY");
  return options.ordered || (ranks.device() == cpu && !(memory && std::string(memory) == "off"));
}

bool rounds(const Communicator& ranks, const Options& options) {
  return options.wire == DType::bf16 && ranks.size() > 1;
}

void reduce_floats(Communicator& ranks, const Options& options, int64_t n) {
  const int size = ranks.size();
  const std::string what = "sum of " + std::to_string(n);
  const Tensor sum = there(numbers(ranks.rank(), n));
  ranks.all_reduce(sum, Reduction::sum);
  const bool bf16_wire = rounds(ranks, options);
  std::vector<float> expected = sum_in_order(size, n, bf16_wire);
  if (bf16_wire && !in_order(ranks, options))
    for (float& v : expected) v = upcast(downcast<bf16>(v));
  if (in_order(ranks, options) || size == 2)
    expect(same_bits(values(sum), expected), what + " is not the sum in order");
  const double bar = bf16_wire ? 0.05 : 1e-6;  // the ring rounds partial sums
  const std::vector<float> got = values(sum);
  for (size_t i = 0; i < got.size(); ++i)
    expect(std::abs(got[i] - expected[i]) <= bar * size * (1 + std::abs(expected[i])),
           what + " is off at " + std::to_string(i));
  expect_replicas(ranks, sum, what);

  const Tensor mean = there(numbers(ranks.rank(), n));
  ranks.all_reduce(mean, Reduction::mean);
  std::vector<float> scaled = values(sum);
  for (float& v : scaled) v *= 1.0f / float(size);
  expect(same_bits(values(mean), scaled), "mean of " + std::to_string(n));

  const Tensor larger = there(numbers(ranks.rank(), n));
  ranks.all_reduce(larger, Reduction::max);
  std::vector<float> largest = numbers(0, n);
  for (int rank = 1; rank < size; ++rank) {
    const std::vector<float> others = numbers(rank, n);
    for (size_t i = 0; i < largest.size(); ++i) largest[i] = std::max(largest[i], others[i]);
  }
  expect(same_bits(values(larger), largest), "max of " + std::to_string(n));
}

void operations(Communicator& ranks, const Options& options) {
  const int rank = ranks.rank(), size = ranks.size();
  for (const int64_t n : {1, 5, 1000}) reduce_floats(ranks, options, n);

  // Several at a time, of more than a stretch and a segment.
  const int64_t n = 600'000;
  const Tensor flat = there(numbers(rank, n));
  for (int64_t slice = 0; slice < 4; ++slice)
    ranks.start_all_reduce(flat.slice(0, slice * n / 4, (slice + 1) * n / 4), Reduction::sum);
  ranks.wait();
  expect_replicas(ranks, flat, "four slices");
  if (options.ordered)
    expect(same_bits(values(flat), sum_in_order(size, n, rounds(ranks, options))), "four slices in order");

  const Tensor nothing = empty({0}, DType::f32, device);
  ranks.all_reduce(nothing, Reduction::sum);

  const Tensor added = there(std::vector<int64_t>{rank, int64_t(1) << 40});
  ranks.all_reduce(added, Reduction::sum);
  const Tensor counts = added.to(cpu);
  expect(counts.data<int64_t>()[0] == size * (size - 1) / 2 &&
             counts.data<int64_t>()[1] == size * (int64_t(1) << 40),
         "sum of i64");
  const Tensor exact = from_vector(std::vector<double>{0.1 * rank, -1.0 * rank}, {2});
  ranks.all_reduce(exact, Reduction::max);
  expect(exact.data<double>()[0] == 0.1 * (size - 1) && exact.data<double>()[1] == 0, "max of f64");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor one_nan = there(std::vector<float>{rank == size - 1 ? nan : float(rank)});
  ranks.all_reduce(one_nan, Reduction::max);
  expect(std::isnan(one_nan.item()), "max with a NaN");

  for (int root = 0; root < size; ++root) {
    const Tensor given = there(std::vector<int32_t>{rank, 10 * rank, 3});
    ranks.broadcast(given, root);
    const Tensor sent = given.to(cpu);
    expect(sent.data<int32_t>()[0] == root && sent.data<int32_t>()[1] == 10 * root &&
               sent.data<int32_t>()[2] == 3,
           "broadcast from " + std::to_string(root));
  }
  const Tensor mine = full({2, 3}, 5 + rank, DType::u8).to(device),
               gathered = empty({size, 2, 3}, DType::u8, device);
  ranks.all_gather(mine, gathered);
  const Tensor all = gathered.to(cpu);
  for (int i = 0; i < size * 6; ++i) expect(all.data<uint8_t>()[i] == 5 + i / 6, "all-gather");
  // f64 is on the CPU alone, beside GPUs too.
  const Tensor here = full({3}, 0.5 + rank, DType::f64), all_here = empty({size, 3}, DType::f64);
  ranks.all_gather(here, all_here);
  for (int i = 0; i < size * 3; ++i) expect(all_here.data<double>()[i] == 0.5 + i / 3, "all-gather of f64");
  ranks.broadcast(here, size - 1);
  expect(here.data<double>()[2] == size - 0.5, "broadcast of f64");
  ranks.barrier();

  const auto refused = [&](const std::string& what, const std::function<void()>& call) {
    try {
      call();
    } catch (const Error&) {
      return;
    }
    expect(false, what + " is not refused");
  };
  if (size == 1) return;
  const auto some = [](const Shape& shape, DType dtype = DType::f32) { return empty(shape, dtype, device); };
  refused("u8", [&] { ranks.all_reduce(some({2}, DType::u8), Reduction::sum); });
  refused("the mean of i64", [&] { ranks.all_reduce(some({2}, DType::i64), Reduction::mean); });
  refused("a strided tensor", [&] { ranks.all_reduce(some({2, 3}).transpose(0, 1), Reduction::sum); });
  refused("an undefined tensor", [&] { ranks.all_reduce(Tensor(), Reduction::sum); });
  refused("a root that is not there", [&] { ranks.broadcast(some({1}), size); });
  refused("a gather of another size", [&] { ranks.all_gather(some({2}), some({size, 3})); });
  ranks.all_reduce(some({3}), Reduction::sum);
}

std::atomic<bool> asked = false, stop = false;

struct Model : nn::Module {
  struct Batch {
    Tensor x, ids;
  };
  Tensor a, b, unused, table, c;
  nn::Lookups lookups;  // of the table, which the output shares
  Model() {
    add_parameter("a", a, {31, 17});
    add_parameter("b", b, {17});
    add_parameter("unused", unused, {5, 3});
    add_parameter("table", table, {67, 17}, {}, &lookups);
    add_parameter("c", c, {17, 3});
    uint64_t stream = 0;
    for (const nn::NamedTensor& p : parameters())
      copy_values(*p.tensor, uniform(p.tensor->shape(), -1, 1, 3, ++stream));
    to(device);
  }
  // Some words occur in several batches, some several times in one.
  static Batch input(int batch) {
    return {normal({7, 31}, 0, 1, 4, uint64_t(batch)).to(device),
            there(std::vector<int64_t>{batch % 60, 3, batch % 60, 66, 5 + batch % 7, 3, 3})};
  }
  Tensor loss_of(const Batch& in) const {
    const Tensor h = tanh(matmul(in.x, a) + b) + lookups.rows(in.ids, table);
    return mean(square(matmul(h, c))) + mean(square(matmul(h, table.transpose(0, 1))));
  }
  Tensor loss(int batch) const { return loss_of(input(batch)); }
};

// A captured step has the same bits as one that runs operator by operator.
void captured(Communicator& ranks, const Model& model, nn::FlatParameters& flat, nn::RankGradients& sum) {
  const Tensor weight = full({}, 0.5).to(device);
  const Model::Batch batch = model.input(ranks.rank());
  const auto step = [&] {
    flat.zero_sum();
    sum.backward(model.loss_of(batch), weight);
    sum.wait();
  };
  step();
  const std::vector<float> want = values(flat.grads);
  const Graph graph(device, step);
  for (int launch = 0; launch < 2; ++launch) {
    copy_values(flat.grads, flat.grads * 3.0);
    graph.launch();
    ranks.watch();
    expect(same_bits(values(flat.grads), want), "a captured step has other bits");
  }
}

// The weight of a batch's loss.
Tensor weight_of(int rank) {
  const double weights[] = {1, 0.5, 0.25, 2};
  return full({}, weights[rank % 4]).to(device);
}

// The gradients of `ranks` ranks with two batches each, summed in one process, those of lookups last.
std::vector<float> gradients_of_one(int ranks) {
  Model model;
  model.lookups.keep_apart(model.table, 7, 5, 2 * ranks, 1);
  std::vector<nn::NamedTensor> parameters = model.parameters();
  for (nn::NamedTensor& p : parameters) p.lookups = nullptr;
  nn::FlatParameters flat(parameters, nn::decays_by_timm);
  std::vector<float> sum(size_t(flat.grads.numel()));
  for (int rank = 0; rank < ranks; ++rank) {
    flat.zero_sum();
    for (const int batch : {0, 1}) {
      model.lookups.set_batch(2 * rank + batch);
      model.loss(batch == 0 ? 100 + rank : rank).backward(weight_of(rank));
      flat.add_grad();
    }
    const std::vector<float> of_rank = values(flat.grads);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += of_rank[i];
  }
  copy_values(flat.grads, there(sum));
  const std::unique_ptr<Communicator> one = connect({}, device);
  for (const auto& [name, gradient] : flat.named(flat.grads))
    if (name == "table") model.lookups.add_to(gradient, *one);
  return values(flat.grads);
}

void gradients(Communicator& ranks, const Options& options) {
  const bool bf16_wire = rounds(ranks, options);
  const double bar = bf16_wire ? 0.05 : 1e-5;
  const std::vector<float> want = gradients_of_one(ranks.size());
  for (const int slices : {1, 2, 3, 100}) {
    Model model;
    model.lookups.keep_apart(model.table, 7, 5, 2, ranks.size());
    nn::FlatParameters flat(model.parameters(), nn::decays_by_timm);
    nn::RankGradients sum(flat, ranks, slices);
    for (int step = 0; step < 2; ++step) {
      flat.zero_sum();
      model.lookups.set_batch(0);
      model.loss(100 + ranks.rank()).backward(weight_of(ranks.rank()));
      flat.add_grad();
      model.lookups.set_batch(1);
      sum.backward(model.loss(ranks.rank()), weight_of(ranks.rank()));
      sum.wait();
      const std::vector<float> got = values(flat.grads);
      double most = 0;
      for (size_t i = 0; i < want.size(); ++i) {
        expect(std::fabs(got[i] - want[i]) <= bar, "gradient " + std::to_string(i) + " in " +
                                                       std::to_string(slices) + " slices is " +
                                                       std::to_string(got[i]));
        most = std::max<double>(most, std::fabs(got[i]));
      }
      if ((ranks.size() <= 2 || in_order(ranks, options)) && !bf16_wire)
        expect(same_bits(got, want), "the sum has other bits than one process's");
      expect(most > 0.01, "the gradients are zeros");
      expect_replicas(ranks, flat.grads, "gradients");
    }
    if (device.is_cuda()) captured(ranks, model, flat, sum);
  }
}

struct NormModel : nn::Callable<NormModel> {
  NormModel() {
    add_module("first", first);
    add_module("norm", norm);
    add_module("last", last);
    nn::initialise(*this, nn::Init::pytorch, 1);
    to(device);
    set_training(true);
  }
  Tensor forward(const Tensor& x) const {
    const Tensor h = first(x);
    return last(relu(norm(h.reshape({h.size(0), 6, 1, 1})).reshape(h.shape())));
  }
  nn::Linear first{4, 6};
  nn::BatchNorm2d norm{6};
  nn::Linear last{6, 2};
};

// Its steps on batches of 8 numbers each, `parts` of them as one from number `first` on.
struct NormSteps : nn::Objective {
  NormSteps(Communicator& ranks, int first, int parts, bool synchronised)
      : first_part(first), parts_of_batch(parts), x(zeros({8 * parts, 4}).to(device)) {
    if (synchronised) model.synchronise(&ranks);
    step.emplace(*this, 1, ranks, flat, optimizer, nullptr, device.is_cuda());
  }
  static Tensor part(int64_t step, int number) {
    return normal({8, 4}, double(number), 1 + double(number), uint64_t(step), uint64_t(number));
  }
  nn::SentBatch next_batch(int64_t step, int64_t) override {
    std::vector<Tensor> all;
    for (int i = 0; i < parts_of_batch; ++i) all.push_back(part(step, first_part + i));
    copy_values(x, concat(all, 0));
    return {8 * parts_of_batch};
  }
  nn::Loss loss() override { return {mean(square(model(x) - 1.0))}; }
  void run(int steps) {
    for (int64_t i = 0; i < steps; ++i) step->start(i, 0.05);
    step->stop(steps - 1);  // waits until the device is done
  }

  int first_part, parts_of_batch;
  Tensor x;
  NormModel model;
  nn::FlatParameters flat{model};
  nn::Optimizer optimizer{flat, {.kind = nn::OptimizerConfig::Kind::sgd}};
  std::optional<nn::TrainingStep> step;
};

void expect_close(const Tensor& got, const Tensor& want, double bar, const std::string& what) {
  const std::vector<float> g = values(got), w = values(want);
  expect(!g.empty() && g.size() == w.size(), what + " has another size");
  for (size_t i = 0; i < g.size(); ++i)
    expect(std::fabs(g[i] - w[i]) <= bar * (1 + std::fabs(w[i])),
           what + " " + std::to_string(i) + " is " + std::to_string(g[i]) + ", need " + std::to_string(w[i]));
}

void norms(Communicator& ranks, const Options& options) {
  // Synchronised, the steps are those of one process with the batches of all ranks.
  constexpr int steps = 4;
  {
    NormSteps mine(ranks, ranks.rank(), 1, true), all(alone(), 0, ranks.size(), false);
    mine.run(steps);
    all.run(steps);
    const double bar = rounds(ranks, options) ? 0.05 : 1e-5;
    expect_close(mine.flat.values, all.flat.values, bar, "weight");
    expect_close(mine.flat.buffers, all.flat.buffers, bar, "running statistic");
    expect(mine.model.norm.num_batches_tracked.item() == steps, "a pass was not counted");
    expect_replicas(ranks, mine.flat.values, "weights");
    expect_replicas(ranks, mine.flat.buffers, "running statistics");
  }
  // Else each normalises by its own batch, and all keep the mean of what they saw.
  NormSteps mine(ranks, ranks.rank(), 1, false);
  mine.run(1);
  Tensor sum = zeros_like(mine.flat.buffers).to(cpu);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    NormSteps other(alone(), rank, 1, false);
    other.run(1);
    sum = sum + other.flat.buffers.to(cpu);
  }
  expect_close(mine.flat.buffers, sum / double(ranks.size()), 1e-6, "running statistic of one step");
  mine.run(steps);
  expect_replicas(ranks, mine.flat.values, "weights");
  expect_replicas(ranks, mine.flat.buffers, "running statistics");
}

void absent(Communicator& ranks) {
  const Tensor sum = ones({3}).to(device);
  if (ranks.rank() == ranks.size() - 1)
    std::this_thread::sleep_for(std::chrono::seconds(60));
  else
    ranks.all_reduce(sum, Reduction::sum);
  values(sum);  // the host waits for the GPU
}

void loop(Communicator& ranks, int failing) {
  std::signal(SIGTERM, [](int) { asked = true; });
  const Tensor gradient = ones({20'000}).to(device), ending = zeros({1});
  for (int step = 0;; ++step) {
    ranks.start_all_reduce(gradient, Reduction::mean);
    ranks.wait();
    if (asked.exchange(false)) ranks.request_stop();
    ending.data<float>()[0] = stop;
    ranks.all_reduce(ending, Reduction::max);
    if (ending.item() > 0) break;
    if (step == 3) std::puts("looping"), std::fflush(stdout);
    if (step == 5 && ranks.rank() == failing) fail("disk", "no space left");
  }
  std::puts("stopped");
}

int body(const std::vector<std::string>& words) {
  const std::string mode = words.at(0);
  Options options;
  options.limits.join = limit("TEST_JOIN", options.limits.join);
  options.limits.silence = limit("TEST_SILENCE", options.limits.silence);
  options.limits.answer = limit("TEST_ANSWER", options.limits.answer);
  options.ordered = std::getenv("TEST_ORDERED");
  if (std::getenv("TEST_BF16")) options.wire = DType::bf16;
  options.compare_calls = std::getenv("TEST_COMPARE");
  options.on_stop = [] { stop = true; };
  Job job = job_from_environment();
  if (std::getenv("TEST_ALONE")) job.address = "127.0.0.1";
  if (const char* name = std::getenv("TEST_DEVICE")) device = device_of_rank(name, job);
  const std::unique_ptr<Communicator> ranks =
      std::getenv("TEST_ALONE")
          ? nccl_communicator(std::make_shared<ControlChannel>(job, options), device, options)
          : connect(job, device, options);
  try {
    if (mode == "operations")
      operations(*ranks, options);
    else if (mode == "gradients")
      gradients(*ranks, options);
    else if (mode == "norms")
      norms(*ranks, options);
    else if (mode == "loop")
      loop(*ranks, -1);
    else if (mode == "fail")
      loop(*ranks, std::stoi(words.at(1)));
    else if (mode == "unequal")
      ranks->all_reduce(ones({ranks->rank() + 1}).to(device), Reduction::sum);
    else if (mode == "absent")
      absent(*ranks);
    else if (mode == "describe")
      ranks->agree({{"seed", "1"}, {"config", words.at(1)}});
    else
      fail("test", "unknown mode " + mode);
  } catch (const std::exception& error) {
    ranks->abort(error.what());
    throw;
  }
  ranks->leave();
  std::printf("rank %d of %d by %s, %d on this machine: %d checks\n", ranks->rank(), ranks->size(),
              job.launcher.c_str(), job.local_size, checks);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, body); }

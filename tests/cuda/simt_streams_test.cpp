#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#ifdef PURSUIT_SIMULATED
#include "cuda/runtime.h"
#include "cuda/simulated/nccl.h"
#include "cuda/simulated/stream.h"
#include "engine/ops.h"
#include "engine/step/graph.h"
#include "engine/step/transfer.h"

// Side streams, and NCCL on them. The tests run with SIMT_STREAMS=late and early; without a needed event the
// result must be wrong in one of the two.
using namespace pursuit;

namespace {

bool early() {
  const char* set = std::getenv("SIMT_STREAMS");
  return set && std::string(set) == "early";
}

Tensor threes() { return full({4}, 3).to(cuda_device()); }
bool all_are(const Tensor& x, double value) { return x.to(cpu).to_vector() == std::vector<double>(4, value); }

// Two ranks in one thread.
struct TwoRanks {
  ncclComm_t comms[2];
  void* stream = cuda::rank_stream(0);
  Event ready{0}, done{0};

  TwoRanks() {
    ncclUniqueId id;
    REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
    ncclGroupStart();
    for (int rank = 0; rank < 2; ++rank) REQUIRE(ncclCommInitRank(&comms[rank], 2, id, rank) == ncclSuccess);
    REQUIRE(ncclGroupEnd() == ncclSuccess);
  }
  ~TwoRanks() {
    cuda::synchronize(0);
    for (ncclComm_t comm : comms) ncclCommDestroy(comm);
  }
  void reduce(int rank, const Tensor& x) {
    ncclAllReduce(x.raw(), x.raw(), size_t(x.numel()), ncclFloat32, ncclSum, comms[rank], stream);
  }
  void reduce(const Tensor& a, const Tensor& b) {
    ncclGroupStart();
    reduce(0, a);
    reduce(1, b);
    ncclGroupEnd();
  }
  void fork() {
    ready.record(cuda::stream(0));
    ready.block(stream);
  }
  void join() {
    done.record(stream);
    done.block(cuda::stream(0));
  }
};

}  // namespace

TEST_CASE("simulated streams: a reduction between events gives the sum, eager and captured") {
  TwoRanks ranks;
  const Tensor a = threes(), b = threes();
  const auto step = [&] {
    copy_values(a, a * 0.0 + 1.0);
    copy_values(b, b * 0.0 + 2.0);
    ranks.fork();
    ranks.reduce(a, b);
    ranks.join();
    copy_values(a, a * 2.0);
  };
  step();
  CHECK(all_are(a, 6));
  CHECK(all_are(b, 3));
  const Graph graph(cuda_device(), step);
  CHECK(all_are(a, 6));
  for (int launch = 0; launch < 2; ++launch) {
    copy_values(a, a * 5.0);
    graph.launch();
    CHECK(all_are(a, 6));
    CHECK(all_are(b, 3));
  }
}

TEST_CASE("simulated streams: a buffer that is used before its reduction is waited for comes out wrong") {
  TwoRanks ranks;
  const Tensor a = threes(), b = threes();
  ranks.fork();
  ranks.reduce(a, b);
  copy_values(a, a * 10.0);
  ranks.join();
  CHECK(all_are(a, early() ? 60 : 33));
}

TEST_CASE("simulated streams: batches are staged and copied while the step before computes") {
  if (!early()) return;  // where work runs at once there is nothing to overlap
  Upload upload({4}, DType::f32, cuda_device());
  cuda::synchronize(0);
  const std::vector<float> batches[] = {{1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}};
  const Tensor sum = zeros({4}).to(cuda_device());
  int steps = 0;
  const auto step = [&] {
    copy_values(sum, sum + upload.tensor());
    simt::submit([&] { ++steps; });
  };
  const auto finish_copies = [] { simt::copies.run_until(simt::copies.given()); };
  upload.send(batches[0].data());
  step();
  upload.send(batches[1].data());
  finish_copies();
  CHECK(steps == 0);  // the second batch is on the device before the first step is done
  step();
  // The third goes where the first was, which has left for the tensor: that needs no step to end either.
  upload.send(batches[2].data());
  finish_copies();
  CHECK(steps == 0);
  step();
  CHECK(all_are(sum, 6));
  CHECK(steps == 3);

  // A copy that is made to wait for the step is seen.
  step();
  Event after(0);
  after.record(cuda::stream(0));
  after.block(cuda::copy_stream(0));
  upload.send(batches[0].data());
  finish_copies();
  CHECK(steps == 4);
}

TEST_CASE("simulated streams: a reduction that does not wait for the work before it comes out wrong") {
  TwoRanks ranks;
  const Tensor a = threes(), b = threes();
  cuda::synchronize(0);
  copy_values(a, a * 10.0);
  ranks.reduce(a, b);
  ranks.join();
  CHECK(all_are(a, early() ? 60 : 33));
}

TEST_CASE("simulated streams: two ranks of one thread without a group hang") {
  const auto ends = [](bool grouped) {
    const pid_t child = fork();
    if (child == 0) {
      TwoRanks ranks;
      const Tensor a = threes(), b = threes();
      ranks.fork();
      if (grouped) {
        ranks.reduce(a, b);
      } else {
        ranks.reduce(0, a);
        ranks.reduce(1, b);
      }
      ranks.join();
      cuda::synchronize(0);
      _exit(all_are(a, 6) ? 0 : 1);
    }
    int status = 0;
    for (int beat = 0; beat < (grouped ? 500 : 50); ++beat) {
      if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
      usleep(20'000);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return false;
  };
  CHECK(ends(true));
  CHECK_FALSE(ends(false));
}

TEST_CASE("simulated streams: calls that differ between the ranks are refused") {
  TwoRanks ranks;
  const Tensor a = threes(), b = threes();
  const auto reduce = [&] {
    ncclGroupStart();
    ranks.reduce(0, a);
    ranks.reduce(1, b.slice(0, 0, 3));
    ncclGroupEnd();
    cuda::synchronize(0);
  };
  CHECK_THROWS_WITH(reduce(), doctest::Contains("rank 1 calls ncclAllReduce of 3"));
}

TEST_CASE("simulated streams: captures that the runtime refuses are refused") {
  TwoRanks ranks;
  const Tensor a = threes(), b = threes();
  const auto recorded = [&](auto work) { const Graph graph(cuda_device(), work); };
  CHECK_THROWS_WITH(recorded([&] {
                      ranks.fork();
                      ranks.reduce(a, b);
                    }),
                    doctest::Contains("not waited for when the capture ends"));
  Event before(0);
  before.record(cuda::stream(0));
  CHECK_THROWS_WITH(recorded([&] { before.block(cuda::stream(0)); }),
                    doctest::Contains("not in the recording"));
  Event inside(0);
  recorded([&] { inside.record(cuda::stream(0)); });
  CHECK_THROWS_WITH(inside.wait(), doctest::Contains("of a recording"));
  CHECK_THROWS_WITH(inside.block(ranks.stream), doctest::Contains("has ended"));
  recorded([&] {
    ranks.fork();
    ranks.reduce(a, b);
    ranks.join();
  });
}
#endif

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cuda/runtime.h"
#include "engine/distributed/communicator.h"
#include "engine/distributed/gloo.h"
#include "engine/distributed/nccl.h"
#include "tests/needs.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using namespace pursuit::distributed;
using std::chrono::milliseconds;

// Ranks are processes of the program test_rank (tests/distributed/rank.cpp), which checks its results.
#define RANKS_TEST_CASE(name) TEST_CASE(name* NEEDS("ranks", !gloo_available()))

// Each rank has its own GPU, real or simulated.
#ifdef PURSUIT_SIMULATED
int most_gpu_ranks() { return 3; }
#else
int most_gpu_ranks() { return nccl_available() ? std::min(3, pursuit::cuda::device_count()) : 0; }
#endif
#define GPU_RANKS_TEST_CASE(name) TEST_CASE(name* NEEDS("gpu-ranks", most_gpu_ranks() < 2))

namespace {

std::vector<std::string> on_gpus(std::vector<std::string> variables) {
  variables.push_back("TEST_DEVICE=cuda");
  return variables;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// All ranks of a job, each with its own output.
class Ranks {
 public:
  Ranks(int size, const std::vector<std::string>& words, const std::vector<std::string>& variables = {})
      : pids_(size_t(size)), codes_(size_t(size), -1) {
    for (int rank = 0; rank < size; ++rank) start(rank, words, variables);
  }
  ~Ranks() {
    for (size_t i = 0; i < pids_.size(); ++i)
      if (codes_[i] < 0) {
        kill(pids_[i], SIGKILL);
        waitpid(pids_[i], nullptr, 0);
      }
  }

  int size() const { return int(pids_.size()); }
  void send(int rank, int number) const { kill(pids_[size_t(rank)], number); }
  std::string out(int rank) const { return read_file(path(rank, "out")); }
  std::string err(int rank) const { return read_file(path(rank, "err")); }
  std::string failure(int rank) const { return read_file(path(rank, "failure")); }

  // The exit code; 128 and the signal's number; -1 where it still runs after the limit.
  int wait(int rank, milliseconds limit = milliseconds(15'000)) {
    int& code = codes_[size_t(rank)];
    for (const auto end = Clock::now() + limit; code < 0 && Clock::now() < end;) {
      int status = 0;
      if (waitpid(pids_[size_t(rank)], &status, WNOHANG) > 0)
        code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      else
        std::this_thread::sleep_for(milliseconds(5));
    }
    return code;
  }
  // The ports at which these processes listen now.
  std::vector<int> listening() const {
    namespace fs = std::filesystem;
    std::set<std::string> sockets;
    std::error_code gone;
    for (const pid_t pid : pids_)
      for (fs::directory_iterator it("/proc/" + std::to_string(pid) + "/fd", gone), end; !gone && it != end;
           it.increment(gone))
        sockets.insert(fs::read_symlink(it->path(), gone).string());
    std::vector<int> ports;
    std::ifstream table("/proc/net/tcp");
    for (std::string line; std::getline(table, line);) {
      std::istringstream words(line);
      std::vector<std::string> word{std::istream_iterator<std::string>(words), {}};
      // Own address and port (hexadecimal), the other's, state (0A: listening) ... and the socket's number.
      if (word.size() > 9 && word[3] == "0A" && sockets.count("socket:[" + word[9] + "]"))
        ports.push_back(std::stoi(word[1].substr(word[1].find(':') + 1), nullptr, 16));
    }
    return ports;
  }
  void wait_until_all_loop() const {
    for (int rank = 0; rank < size(); ++rank)
      for (int i = 0; i < 4000 && out(rank).find("looping") == std::string::npos; ++i)
        std::this_thread::sleep_for(milliseconds(5));
  }

 private:
  std::string path(int rank, const std::string& stream) const {
    return folder_.file(std::to_string(rank) + stream);
  }

  void start(int rank, const std::vector<std::string>& words, const std::vector<std::string>& variables) {
    const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "test_rank";
    std::vector<std::string> environment = {"PURSUIT_RANK=" + std::to_string(rank),
                                            "PURSUIT_RANKS=" + std::to_string(size()),
                                            "PURSUIT_PORT=" + std::to_string(port()),
                                            "TORCHELASTIC_ERROR_FILE=" + path(rank, "failure"),
                                            "TEST_ANSWER=20000",
                                            "OMP_NUM_THREADS=1"};
    environment.insert(environment.begin(), variables.begin(), variables.end());  // the first counts
    std::vector<std::string> all = {program};
    all.insert(all.end(), words.begin(), words.end());
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> result;
      for (std::string& text : texts) result.push_back(text.data());
      result.push_back(nullptr);
      return result;
    };
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const int flags = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&actions, 1, path(rank, "out").c_str(), flags, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, path(rank, "err").c_str(), flags, 0600);
    REQUIRE(posix_spawn(&pids_[size_t(rank)], program.c_str(), &actions, nullptr, pointers(all).data(),
                        pointers(environment).data()) == 0);
    posix_spawn_file_actions_destroy(&actions);
  }

  // One that was free a moment ago.
  int port() {
    if (port_) return port_;
    const auto socket = listen_at(addresses_of("127.0.0.1").front(), 0);
    return port_ = own_address(*socket).port();
  }

  TemporaryFolder folder_;
  std::vector<pid_t> pids_;
  std::vector<int> codes_;
  int port_ = 0;
};

void check_all_succeed(Ranks& ranks) {
#ifdef PURSUIT_SANITIZED  // where three ranks with simulated GPUs take half a minute if nothing else runs
  constexpr milliseconds hangs(300'000);
#else
  constexpr milliseconds hangs(60'000);
#endif
  for (int rank = 0; rank < ranks.size(); ++rank) {
    CHECK(ranks.wait(rank, hangs) == 0);
    CHECK(ranks.err(rank) == "");
    CHECK(ranks.out(rank).find("rank " + std::to_string(rank) + " of " + std::to_string(ranks.size())) !=
          std::string::npos);
  }
}

const std::vector<std::string> over_tcp = {"PURSUIT_SHARED_MEMORY=off"};

std::string prefix(int rank) { return rank ? "[rank " + std::to_string(rank) + "] " : ""; }

}  // namespace

RANKS_TEST_CASE("distributed: every operation equals a plain computation, with equal bits on all ranks") {
  for (const std::vector<std::string>& variables : {std::vector<std::string>{},
                                                    {"TEST_ORDERED=1", "TEST_COMPARE=1"},
                                                    {"TEST_BF16=1"},
                                                    {"TEST_BF16=1", "TEST_ORDERED=1"},
                                                    over_tcp,
                                                    {over_tcp[0], "TEST_ORDERED=1"},
                                                    {over_tcp[0], "TEST_BF16=1"}})
    for (const int size : {1, 2, 3, 4}) {
      CAPTURE(size);
      Ranks ranks(size, {"operations"}, variables);
      check_all_succeed(ranks);
    }
}

RANKS_TEST_CASE(
    "distributed: gradients in slices are those of one process, with its bits at two ranks or in order") {
  for (const std::vector<std::string>& variables :
       {std::vector<std::string>{}, {"TEST_ORDERED=1", "TEST_COMPARE=1"}, {"TEST_BF16=1"}, over_tcp})
    for (const int size : {1, 2, 3, 4}) {
      CAPTURE(size);
      Ranks ranks(size, {"gradients"}, variables);
      check_all_succeed(ranks);
    }
}

RANKS_TEST_CASE("distributed: batch norm over all ranks is that of one process with all batches") {
  for (const std::vector<std::string>& variables :
       {std::vector<std::string>{}, {"TEST_BF16=1", "TEST_COMPARE=1"}, over_tcp})
    for (const int size : {1, 2, 3}) {
      CAPTURE(size);
      Ranks ranks(size, {"norms"}, variables);
      check_all_succeed(ranks);
    }
}

RANKS_TEST_CASE("distributed: tensors of different sizes are an error where calls are compared") {
  Ranks ranks(3, {"unequal"}, {"TEST_COMPARE=1"});
  int found = 0;
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(ranks.wait(rank) == 1);
    INFO(ranks.err(rank));
    found += ranks.err(rank).find("is at all-reduce of f32[" + std::to_string(rank + 1) + "], and rank") !=
             std::string::npos;
  }
  CHECK(found >= 1);  // the others may learn of it from the first
}

RANKS_TEST_CASE("distributed: after kill -9 of any rank the others end with its name") {
  for (const auto& [rank_lost, variables] :
       {std::pair(0, std::vector<std::string>{}), {1, {}}, {2, {}}, {2, over_tcp}}) {
    const int lost = rank_lost;
    CAPTURE(lost);
    Ranks ranks(3, {"loop"}, variables);
    ranks.wait_until_all_loop();
    ranks.send(lost, SIGKILL);
    for (int rank = 0; rank < 3; ++rank) {
      CHECK(ranks.wait(rank, milliseconds(5000)) == (rank == lost ? 128 + SIGKILL : 1));
      if (rank == lost) continue;
      const std::string why = "rank " + std::to_string(lost) + " is lost (its connection closed)";
      CHECK(ranks.err(rank) == prefix(rank) + "error: " + why + "\n");
      CHECK(ranks.failure(rank).find(why) != std::string::npos);
    }
  }
}

RANKS_TEST_CASE("distributed: garbage on every open port may end a job with a line, and changes no number") {
  const Address loopback = addresses_of("127.0.0.1").front();
  int connections = 0;
  for (const std::string& garbage :
       {std::string(), std::string("GET / HTTP/1.1\r\n\r\n"), std::string(48, '\0'),
        std::string(1000, '\xff'), std::string("\x30\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 16)}) {
    CAPTURE(garbage.size());
    Ranks ranks(3, {"operations"}, {"TEST_JOIN=5000"});
    std::vector<Socket> kept;  // silent after what they said
    const auto begin = Clock::now();
    for (bool running = true; running && Clock::now() - begin < milliseconds(15'000);) {
      for (const int port : ranks.listening())
        if (std::optional<Socket> socket = connect_to(loopback, port, milliseconds(100))) {
          ++connections;
          send_all(*socket, garbage);
          if (kept.size() < 200) kept.push_back(std::move(*socket));
        }
      running = false;
      for (int rank = 0; rank < 3; ++rank) running |= ranks.wait(rank, milliseconds(1)) < 0;
    }
    for (int rank = 0; rank < 3; ++rank) {
      const int code = ranks.wait(rank, milliseconds(0));
      const std::string line = ranks.err(rank);
      INFO(line);
      CHECK((code == 0 || code == 1));  // the program itself compares the numbers
      CHECK(line.find("[test]") == std::string::npos);
      CHECK(std::count(line.begin(), line.end(), '\n') == code);
      CHECK((code == 0 || line.starts_with(prefix(rank) + "error: ") || line.starts_with("error: ")));
    }
  }
  CHECK(connections > 0);
}

RANKS_TEST_CASE("distributed: after SIGSTOP of any rank the others end with its name") {
  for (const int lost : {0, 1}) {
    CAPTURE(lost);
    Ranks ranks(2, {"loop"}, {"TEST_SILENCE=2000"});
    ranks.wait_until_all_loop();
    ranks.send(lost, SIGSTOP);
    CHECK(ranks.wait(1 - lost, milliseconds(8000)) == 1);
    CHECK(ranks.err(1 - lost) == prefix(1 - lost) + "error: rank " + std::to_string(lost) +
                                     " is lost (nothing was heard of it for 2 s)\n");
    // One that goes on sees that it is alone.
    ranks.send(lost, SIGCONT);
    CHECK(ranks.wait(lost, milliseconds(8000)) == 1);
    CHECK(ranks.err(lost).find("is lost") != std::string::npos);
  }
}

RANKS_TEST_CASE("distributed: ranks that were all stopped for longer than that go on") {
  Ranks ranks(2, {"loop"}, {"TEST_SILENCE=2000"});
  ranks.wait_until_all_loop();
  for (const int number : {SIGSTOP, SIGCONT}) {
    for (int rank = 0; rank < 2; ++rank) ranks.send(rank, number);
    std::this_thread::sleep_for(milliseconds(2500));
  }
  ranks.send(0, SIGTERM);
  check_all_succeed(ranks);
}

RANKS_TEST_CASE("distributed: the reason of a rank that fails reaches the others, and torchrun's file") {
  for (const auto& [rank_failing, variables] :
       {std::pair(0, std::vector<std::string>{}), {2, {}}, {2, over_tcp}}) {
    const int failing = rank_failing;
    CAPTURE(failing);
    Ranks ranks(3, {"fail", std::to_string(failing)}, variables);
    for (int rank = 0; rank < 3; ++rank) {
      CHECK(ranks.wait(rank) == 1);
      const std::string reason = "[disk] no space left";
      const std::string why = "rank " + std::to_string(failing) + " failed: " + reason;
      CHECK(ranks.err(rank) ==
            (rank == failing ? "error: " + reason + "\n" : prefix(rank) + "error: " + why + "\n"));
      CHECK(ranks.failure(rank).find(R"("message":")" + (rank == failing ? reason : why)) !=
            std::string::npos);
    }
  }
}

RANKS_TEST_CASE("distributed: one rank's SIGTERM stops all of them after the same step") {
  for (const int asked : {0, 1}) {
    Ranks ranks(2, {"loop"});
    ranks.wait_until_all_loop();
    ranks.send(asked, SIGTERM);
    check_all_succeed(ranks);
  }
}

GPU_RANKS_TEST_CASE("distributed on GPUs: every operation equals a plain computation, with equal bits") {
  for (const std::vector<std::string>& variables :
       {std::vector<std::string>{"SIMT_LATE_RANK=0"},
        {"TEST_ORDERED=1", "TEST_COMPARE=1", "SIMT_STREAMS=early"},
        {"TEST_BF16=1", "SIMT_STREAMS=early", "SIMT_LATE_RANK=1"},
        {"TEST_BF16=1", "TEST_ORDERED=1"}}) {
    Ranks ranks(most_gpu_ranks(), {"operations"}, on_gpus(variables));
    check_all_succeed(ranks);
  }
}

GPU_RANKS_TEST_CASE("distributed on GPUs: gradients in slices are those of one process, eager and captured") {
  for (const std::vector<std::string>& variables :
       {std::vector<std::string>{}, {"TEST_ORDERED=1", "SIMT_LATE_RANK=1"}, {"SIMT_STREAMS=early"}})
    for (int size = 2; size <= most_gpu_ranks(); ++size) {
      CAPTURE(size);
      Ranks ranks(size, {"gradients"}, on_gpus(variables));
      check_all_succeed(ranks);
    }
}

GPU_RANKS_TEST_CASE("distributed on GPUs: batch norm over all ranks, in captured steps") {
  for (const std::vector<std::string>& variables :
       {std::vector<std::string>{"SIMT_LATE_RANK=1"}, {"SIMT_STREAMS=early"}}) {
    Ranks ranks(2, {"norms"}, on_gpus(variables));
    check_all_succeed(ranks);
  }
}

GPU_RANKS_TEST_CASE("distributed on GPUs: one rank has NCCL too where it is asked for") {
  Ranks ranks(1, {"gradients"}, on_gpus({"TEST_ALONE=1"}));
  check_all_succeed(ranks);
}

GPU_RANKS_TEST_CASE("distributed on GPUs: calls that differ are an error where they are compared") {
  Ranks ranks(2, {"unequal"}, on_gpus({"TEST_COMPARE=1"}));
  for (int rank = 0; rank < 2; ++rank) CHECK(ranks.wait(rank) == 1);
  CHECK((ranks.err(0) + ranks.err(1)).find("is at all-reduce of f32[") != std::string::npos);
}

GPU_RANKS_TEST_CASE("distributed on GPUs: an operation to which a rank never comes ends with a line") {
  Ranks ranks(2, {"absent"}, on_gpus({"TEST_ANSWER=1000"}));
  for (int rank = 0; rank < 2; ++rank) CHECK(ranks.wait(rank) == 1);
  CHECK(ranks.err(0) == "error: an operation of the ranks did not end within 1 s\n");
  CHECK(ranks.err(1) == "[rank 1] error: rank 0 failed: an operation of the ranks did not end within 1 s\n");
}

GPU_RANKS_TEST_CASE("distributed on GPUs: after kill -9 of any rank the others end with its name") {
  for (const int lost : {0, 1}) {
    CAPTURE(lost);
    Ranks ranks(2, {"loop"}, on_gpus({}));
    ranks.wait_until_all_loop();
    ranks.send(lost, SIGKILL);
    CHECK(ranks.wait(1 - lost, milliseconds(5000)) == 1);
    CHECK(ranks.err(1 - lost) ==
          prefix(1 - lost) + "error: rank " + std::to_string(lost) + " is lost (its connection closed)\n");
  }
}

TEST_CASE("distributed: one process is a communicator of one, which changes nothing") {
  const auto ranks = connect({}, cpu);
  CHECK(ranks->rank() == 0);
  CHECK(ranks->size() == 1);
  const Tensor x = arange(3, DType::f32), all = empty({1, 3});
  ranks->all_reduce(x, Reduction::mean);
  ranks->broadcast(x, 0);
  CHECK(x.to_vector() == std::vector<double>{0, 1, 2});
  ranks->all_gather(x, all);
  CHECK(all.to_vector() == std::vector<double>{0, 1, 2});
  ranks->barrier();
  ranks->agree({{"seed", "0"}});
  ranks->leave();
}

TEST_CASE("distributed: a device that this build has no ranks for is refused before they meet") {
  Job job{.rank = 1, .size = 2, .local_rank = 1, .local_size = 2, .launcher = "test"};
  if (!nccl_available()) CHECK_THROWS_WITH(connect(job, cuda_device()), doctest::Contains("need NCCL"));
}

#include "apps/training/ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "apps/run/run_folder.h"
#include "apps/terminal/print.h"
#include "apps/terminal/signals.h"
#include "engine/base/error.h"
#include "engine/base/line_prefix.h"
#include "engine/cpu/parallel.h"
#include "engine/distributed/secret.h"
#include "engine/distributed/socket.h"

namespace pursuit::apps {

namespace {

using std::chrono::milliseconds;

// The command line of this process.
std::vector<std::string> own_arguments() {
  std::vector<std::string> words;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

std::string hexadecimal(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

// Passes a stop request of this rank on to the others.
class StopWatch {
 public:
  explicit StopWatch(distributed::Communicator& ranks) {
    if (ranks.size() > 1)
      thread_ = std::jthread([&ranks](const std::stop_token& end) {
        while (!end.stop_requested() && !stop_requested()) std::this_thread::sleep_for(milliseconds(50));
        if (!end.stop_requested()) ranks.request_stop();
      });
  }

 private:
  std::jthread thread_;
};

struct Started {
  int64_t rank;
  pid_t pid;
};

void end_at_once(const std::vector<Started>& ranks) {
  for (const Started& s : ranks) kill(s.pid, SIGKILL);
  for (const Started& s : ranks) waitpid(s.pid, nullptr, 0);
}

// Waits for all ranks; returns the first exit code that is not 0. Ranks notice a lost rank by themselves and
// end; those that still run 5 seconds after the first end (suspended ones, for example) are killed.
int wait_for(std::vector<Started> running) {
  constexpr milliseconds beat(50), last_words(5'000);
  int code = 0;
  bool told = false, killed = false;
  std::optional<std::chrono::steady_clock::time_point> first_end;
  while (!running.empty()) {
    std::this_thread::sleep_for(beat);
    std::erase_if(running, [&](const Started& s) {
      int status = 0;
      const pid_t found = waitpid(s.pid, &status, WNOHANG);
      if (found == 0) return false;
      const int ended = found < 0 ? 1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      // Ranks that were not connected yet cannot report the loss.
      if (WIFSIGNALED(status) && !killed && !stop_requested())
        note("error: rank {} is lost (signal {}: {})\n", s.rank, WTERMSIG(status),
             strsignal(WTERMSIG(status)));
      if (code == 0) code = ended;
      if (!first_end) first_end = std::chrono::steady_clock::now();
      return true;
    });
    if (stop_requested() && !told)
      for (const Started& s : running) kill(s.pid, SIGTERM);
    told = told || stop_requested();
    if (!first_end || killed || std::chrono::steady_clock::now() - *first_end < last_words) continue;
    killed = true;
    for (const Started& s : running) {
      if (code == 0) note("error: rank {} is lost (it did not end with the others)\n", s.rank);
      kill(s.pid, SIGKILL);
    }
  }
  return code;
}

}  // namespace

void keep_batches(int64_t batches, TrainingFields& f) {
  if (batches % f.ranks)
    fail("train", fmt::format("the run takes {} batches a step, which {} ranks cannot share equally; give a "
                              "--ranks that divides {}",
                              batches, f.ranks, batches));
  f.accumulate = batches / f.ranks;
}

int launch_ranks(int64_t ranks) {
  using namespace distributed;
  // The number may come from an untrusted config.json.
  const int64_t processors = std::max<int64_t>(1, std::thread::hardware_concurrency()), most = 8 * processors;
  if (ranks > most)
    fail("ranks",
         fmt::format("{} ranks are more than 8 for each of the {} processors here; give a --ranks of at "
                     "most {}",
                     ranks, processors, most));
  std::optional<Socket> listener = listen_at(addresses_of("127.0.0.1").front(), 0);
  if (!listener) fail("ranks", "no port is free on the loopback address");
  setenv("PURSUIT_PORT", std::to_string(own_address(*listener).port()).c_str(), 1);
  setenv("PURSUIT_RANKS", std::to_string(ranks).c_str(), 1);
  // Other users can read a command line, but not the environment.
  for (const char* of_another_launch : {"PURSUIT_ADDRESS", "PURSUIT_LOCAL_RANK", "PURSUIT_LOCAL_RANKS"})
    unsetenv(of_another_launch);
  if (!getenv("PURSUIT_JOB_SECRET")) setenv("PURSUIT_JOB_SECRET", hexadecimal(random_bytes(32)).c_str(), 1);
  const std::vector<std::string> words = own_arguments();
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  catch_stop_signals();
  std::signal(SIGCHLD, SIG_DFL);  // where it is ignored, how a rank ended cannot be known
  std::vector<Started> running;
  const pid_t launcher = getpid();
  std::optional<HeldStopSignals> held(std::in_place);  // a rank that has just begun would end without saving
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const pid_t pid = fork();
    if (pid < 0) {
      const std::string why = std::strerror(errno);
      end_at_once(running);
      fail("ranks", fmt::format("rank {} cannot be started: {}", rank, why));
    }
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);  // ends with the launcher, unless that has just ended
      if (getppid() != launcher) _exit(127);
      setenv("PURSUIT_RANK", std::to_string(rank).c_str(), 1);
      if (rank == 0) {
        fcntl(listener->descriptor(), F_SETFD, 0);
        setenv("PURSUIT_LISTENER", std::to_string(listener->descriptor()).c_str(), 1);
      }
      execv("/proc/self/exe", arguments.data());
      note("error: rank {} cannot be started: {}\n", rank, std::strerror(errno));
      _exit(127);
    }
    running.push_back({rank, pid});
  }
  held.reset();
  listener->close();
  return wait_for(running);
}

int with_ranks(const std::string& device, const RankOptions& o,
               const std::function<int(distributed::Communicator&)>& body) {
  const distributed::Job job = distributed::job_from_environment();
  distributed::Options options;
  options.ordered = o.ordered_reduce;
  options.wire = o.wire;
  options.on_stop = request_stop;
  if (!getenv("OMP_NUM_THREADS")) set_num_threads(std::max(1, num_threads() / job.local_size));
  if (job.rank > 0) line_prefix = fmt::format("[rank {}] ", job.rank);
  const std::unique_ptr<distributed::Communicator> ranks =
      distributed::connect(job, distributed::device_of_rank(device, job), options);
  // From here on a rank that ended by a signal would be lost to the others.
  if (ranks->size() > 1) catch_stop_signals();
  int code = 0;
  try {
    const StopWatch watch(*ranks);
    code = body(*ranks);
  } catch (const std::exception& error) {
    ranks->abort(error.what());
    throw;
  }
  ranks->leave();
  return code;
}

std::string job_name() {
  if (!getenv("TORCHELASTIC_RUN_ID")) return "";
  std::string text = distributed::job_from_environment().identity;
  for (const std::string& word : own_arguments()) text += '\0' + word;
  return fmt::format("{:016x}", distributed::hash(text));
}

bool began_before(const std::string& folder) {
  const char* restarts = getenv("TORCHELASTIC_RESTART_COUNT");
  if (!restarts || std::string(restarts) == "0" || !std::filesystem::exists(config_path(folder)))
    return false;
  const nlohmann::ordered_json config = config_of_run(folder);
  return config.contains("job") && config["job"] == job_name();
}

void add_up(distributed::Communicator& ranks, std::vector<int64_t>& counts) {
  if (ranks.size() == 1) return;
  const Tensor all = from_vector(counts, {int64_t(counts.size())});
  ranks.all_reduce(all, distributed::Reduction::sum);
  std::copy_n(all.data<int64_t>(), counts.size(), counts.begin());
}

double reduced(distributed::Communicator& ranks, double value, distributed::Reduction reduction) {
  const Tensor all = full({1}, value, DType::f64);
  if (ranks.size() > 1) ranks.all_reduce(all, reduction);
  return all.item();
}

}  // namespace pursuit::apps

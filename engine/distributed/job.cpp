#include "engine/distributed/job.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/distributed/secret.h"

namespace pursuit::distributed {

namespace {

constexpr int most_ranks = 65536;

// Environment variables by name. An empty one counts as not set.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  std::string text(const std::string& name) const {
    const char* value = environment_(name.c_str());
    return value ? value : "";
  }
  bool has(const std::string& name) const { return !text(name).empty(); }

  // `beside`: the variable that is set and requires this one.
  std::string required(const std::string& name, const std::string& beside) const {
    if (!has(name))
      fail("ranks", beside + " is set, but " + name +
                        " is not; set all of the launcher's variables, or unset " + beside +
                        " to train in one process");
    return text(name);
  }
  int number(const std::string& name, const std::string& beside, int least, int most) const {
    const std::string value = required(name, beside);
    int n = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
    if (error != std::errc() || end != value.data() + value.size() || n < least || n > most)
      fail("ranks", name + " is '" + printable(value) + "', need a whole number from " +
                        std::to_string(least) + " to " + std::to_string(most));
    return n;
  }

 private:
  const Environment& environment_;
};

// The names of a launcher's four numbers.
struct Names {
  const char *rank, *size, *local_rank, *local_size;
};

void read_place(const Variables& variables, const Names& names, Job& job) {
  job.size = variables.number(names.size, names.rank, 1, most_ranks);
  job.rank = variables.number(names.rank, names.size, 0, job.size - 1);
  job.local_size = variables.number(names.local_size, names.rank, 1, job.size);
  job.local_rank = variables.number(names.local_rank, names.rank, 0, job.local_size - 1);
}

Job of_pursuit(const Variables& variables) {
  Job job{.launcher = "pursuit"};
  if (variables.has("PURSUIT_ADDRESS")) {
    read_place(variables, {"PURSUIT_RANK", "PURSUIT_RANKS", "PURSUIT_LOCAL_RANK", "PURSUIT_LOCAL_RANKS"},
               job);
  } else {
    read_place(variables, {"PURSUIT_RANK", "PURSUIT_RANKS", "PURSUIT_RANK", "PURSUIT_RANKS"}, job);
  }
  if (job.rank == 0 && variables.has("PURSUIT_LISTENER"))
    job.listener = variables.number("PURSUIT_LISTENER", "PURSUIT_RANK", 3, 1 << 20);
  return job;
}

Job of_torchrun(const Variables& variables) {
  Job job{.launcher = "torchrun"};
  read_place(variables, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}, job);
  // The agent itself listens on MASTER_PORT, so here the port is only part of the job's name. The restart
  // count is not: every machine's agent has its own.
  job.identity = variables.required("MASTER_ADDR", "RANK") + " " + variables.required("MASTER_PORT", "RANK") +
                 " " + variables.text("TORCHELASTIC_RUN_ID");
  return job;
}

Job of_open_mpi(const Variables& variables) {
  Job job{.launcher = "Open MPI"};
  read_place(variables,
             {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
              "OMPI_COMM_WORLD_LOCAL_SIZE"},
             job);
  job.identity = variables.has("PMIX_NAMESPACE")
                     ? variables.text("PMIX_NAMESPACE")
                     : variables.required("OMPI_MCA_ess_base_jobid", "OMPI_COMM_WORLD_RANK");
  // "1674117120.0;tcp://10.0.0.1,192.168.0.1:59863;...": mpirun's own host, where the first ranks run by
  // default.
  const std::string uri = variables.text("OMPI_MCA_orte_hnp_uri");
  if (const size_t begin = uri.find("tcp://"); begin != std::string::npos)
    job.address = uri.substr(begin + 6, uri.find_first_of(",:;", begin + 6) - (begin + 6));
  return job;
}

// Hydra does not name a job in the environment. It starts every rank in its own session; the session leaders
// on one machine are children of one process.
std::string parent_of_session() {
  std::ifstream file("/proc/" + std::to_string(getsid(0)) + "/stat");
  std::string stat;
  std::getline(file, stat);
  // "4058 (sh) S 4057 ...": the name may contain anything.
  std::istringstream rest(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
  std::string state, parent;
  rest >> state >> parent;
  return parent;
}

Job of_mpich(const Variables& variables) {
  Job job{.launcher = "MPICH"};
  read_place(variables, {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}, job);
  if (job.on_one_machine()) job.identity = parent_of_session();
  return job;
}

// The first host of Slurm's list: "node[07-09,12],other" is node07 and more.
std::string first_host(const std::string& list) {
  std::string host;
  for (size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const size_t close = list.find(']', i);
    host += list.substr(i + 1, list.find_first_of(",-]", i) - (i + 1));
    if (close == std::string::npos) break;
    i = close;
  }
  return host;
}

// Tasks on a node by Slurm's list: "2(x3),1" is 2, 2, 2 and 1. 0 if the list does not say.
int tasks_on_node(const std::string& list, int node) {
  std::istringstream groups(list);
  for (std::string group; std::getline(groups, group, ',');) {
    int tasks = 0, times = 1;
    if (std::sscanf(group.c_str(), "%d(x%d)", &tasks, &times) < 1) return 0;
    if (node < times) return tasks;
    node -= times;
  }
  return 0;
}

Job of_slurm(const Variables& variables) {
  Job job{.launcher = "Slurm"};
  job.size = variables.number("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", 1, most_ranks);
  job.rank = variables.number("SLURM_PROCID", "SLURM_STEP_ID", 0, job.size - 1);
  const int node = variables.number("SLURM_NODEID", "SLURM_PROCID", 0, most_ranks);
  const std::string tasks = variables.required("SLURM_STEP_TASKS_PER_NODE", "SLURM_PROCID");
  job.local_size = tasks_on_node(tasks, node);
  if (job.local_size < 1 || job.local_size > job.size)
    fail("ranks", "SLURM_STEP_TASKS_PER_NODE is '" + printable(tasks) +
                      "', which does not say how many of the " + std::to_string(job.size) +
                      " tasks are on node " + std::to_string(node));
  job.local_rank = variables.number("SLURM_LOCALID", "SLURM_PROCID", 0, job.local_size - 1);
  job.identity = variables.required("SLURM_JOB_ID", "SLURM_PROCID") + "." + variables.text("SLURM_STEP_ID") +
                 "." + variables.text("SLURM_RESTART_COUNT");
  job.address = first_host(variables.text("SLURM_STEP_NODELIST"));
  return job;
}

Job of_launcher(const Variables& variables) {
  if (variables.has("PURSUIT_RANK") || variables.has("PURSUIT_RANKS")) return of_pursuit(variables);
  if (variables.has("RANK") || variables.has("WORLD_SIZE")) return of_torchrun(variables);
  if (variables.has("OMPI_COMM_WORLD_RANK")) return of_open_mpi(variables);
  // srun's own PMI also sets PMI_RANK; in a Slurm job Hydra starts its helpers by srun, one per machine.
  if (variables.has("PMI_RANK") && variables.has("MPI_LOCALRANKID")) return of_mpich(variables);
  // The shell and script of an allocation have a job, the script even a SLURM_PROCID, but they are not a step
  // with several tasks.
  if (variables.has("SLURM_STEP_ID") && variables.has("SLURM_PROCID") &&
      variables.text("SLURM_STEP_NUM_TASKS") != "1")
    return of_slurm(variables);
  return {};
}

}  // namespace

Job job_from_environment(const Environment& environment) {
  const Variables variables(environment);
  Job job = of_launcher(variables);
  if (job.size == 1) return {.launcher = job.launcher};
  if (variables.has("PURSUIT_PORT")) job.port = variables.number("PURSUIT_PORT", "PURSUIT_RANK", 1, 65535);
  if (job.identity.empty()) job.identity = std::to_string(job.port);
  if (variables.has("PURSUIT_ADDRESS"))
    job.address = variables.text("PURSUIT_ADDRESS");
  else if (job.on_one_machine())
    job.address = "127.0.0.1";
  else if (variables.has("MASTER_ADDR"))
    job.address = variables.text("MASTER_ADDR");
  if (job.address.empty())
    fail("ranks",
         job.launcher + " names no host where rank 0 runs; set PURSUIT_ADDRESS to that host on all ranks");
  job.secret = variables.text("PURSUIT_JOB_SECRET");
  if (job.secret.empty() && !job.on_one_machine())
    fail("ranks",
         "the ranks are on several machines, which need a secret in common: set PURSUIT_JOB_SECRET to the "
         "same text of at least " +
             std::to_string(least_secret) + " characters on all of them");
  if (!job.secret.empty() && job.secret.size() < least_secret)
    fail("ranks", "PURSUIT_JOB_SECRET has " + std::to_string(job.secret.size()) +
                      " characters, need at least " + std::to_string(least_secret));
  return job;
}

Job job_from_environment() {
  return job_from_environment([](const char* name) { return std::getenv(name); });
}

std::vector<int> candidate_ports(const Job& job) {
  if (job.port) return {job.port};
  constexpr int first = 20000, ports = 12768, candidates = 16;
  const uint64_t start = hash(job.launcher + " " + job.identity);
  std::vector<int> found;
  // 617 has no common factor with the number of ports: candidates are distinct and not adjacent.
  for (uint64_t i = 0; i < candidates; ++i) found.push_back(first + int((start % ports + i * 617) % ports));
  return found;
}

}  // namespace pursuit::distributed

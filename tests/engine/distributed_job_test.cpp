#include <doctest/doctest.h>

#include <map>
#include <set>

#include "engine/base/error.h"
#include "engine/distributed/job.h"

using namespace pursuit;
using namespace pursuit::distributed;

namespace {

using Variables = std::map<std::string, std::string>;

Job job_of(const Variables& variables) {
  return job_from_environment([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string error_of(const Variables& variables) {
  try {
    job_of(variables);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Variables with(Variables variables, const Variables& others) {
  for (const auto& [name, value] : others) variables[name] = value;
  return variables;
}

const Variables secret = {{"PURSUIT_JOB_SECRET", "0123456789abcdef"}};
const Variables torchrun = {{"RANK", "3"},
                            {"WORLD_SIZE", "4"},
                            {"LOCAL_RANK", "3"},
                            {"LOCAL_WORLD_SIZE", "4"},
                            {"MASTER_ADDR", "node1"},
                            {"MASTER_PORT", "29500"},
                            {"TORCHELASTIC_RUN_ID", "none"},
                            {"TORCHELASTIC_RESTART_COUNT", "0"}};
const Variables open_mpi = {
    {"OMPI_COMM_WORLD_RANK", "1"},
    {"OMPI_COMM_WORLD_SIZE", "2"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
    {"OMPI_MCA_orte_hnp_uri", "1674117120.0;tcp://192.0.2.2,10.0.0.2:59863;tcp6://[fd00::2]:5"},
    {"PMIX_NAMESPACE", "1674117121"}};
const Variables srun = {{"SLURM_JOB_ID", "77"},
                        {"SLURM_STEP_ID", "0"},
                        {"SLURM_PROCID", "5"},
                        {"SLURM_STEP_NUM_TASKS", "7"},
                        {"SLURM_NTASKS", "7"},
                        {"SLURM_LOCALID", "2"},
                        {"SLURM_NODEID", "1"},
                        {"SLURM_STEP_TASKS_PER_NODE", "3(x2),1"},
                        {"SLURM_STEP_NODELIST", "gpu[07-09]"}};

void check_place(const Job& job, const std::string& launcher, int rank, int size, int local_rank,
                 int local_size, const std::string& address) {
  CAPTURE(launcher);
  CHECK(job.launcher == launcher);
  CHECK(job.rank == rank);
  CHECK(job.size == size);
  CHECK(job.local_rank == local_rank);
  CHECK(job.local_size == local_size);
  CHECK(job.address == address);
}

}  // namespace

TEST_CASE("distributed: the place of a process by its launcher's variables") {
  check_place(job_of({}), "", 0, 1, 0, 1, "");
  check_place(job_of({{"PURSUIT_RANK", "1"}, {"PURSUIT_RANKS", "4"}, {"PURSUIT_PORT", "4000"}}), "pursuit", 1,
              4, 1, 4, "127.0.0.1");
  check_place(job_of(with(secret, {{"PURSUIT_RANK", "5"},
                                   {"PURSUIT_RANKS", "8"},
                                   {"PURSUIT_LOCAL_RANK", "1"},
                                   {"PURSUIT_LOCAL_RANKS", "4"},
                                   {"PURSUIT_ADDRESS", "10.0.0.1"}})),
              "pursuit", 5, 8, 1, 4, "10.0.0.1");
  // If all ranks are on one machine, rank 0 uses loopback, regardless of the launcher's address.
  check_place(job_of(torchrun), "torchrun", 3, 4, 3, 4, "127.0.0.1");
  check_place(job_of(with(with(torchrun, secret), {{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}})),
              "torchrun", 3, 4, 1, 2, "node1");
  check_place(job_of(open_mpi), "Open MPI", 1, 2, 1, 2, "127.0.0.1");
  const Variables two_machines = {{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}};
  check_place(job_of(with(with(open_mpi, secret), two_machines)), "Open MPI", 1, 2, 0, 1, "192.0.2.2");
  check_place(job_of(with(with(open_mpi, secret), with(two_machines, {{"MASTER_ADDR", "head"}}))), "Open MPI",
              1, 2, 0, 1, "head");
  check_place(
      job_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}}),
      "MPICH", 1, 2, 1, 2, "127.0.0.1");
  check_place(job_of(with(srun, secret)), "Slurm", 5, 7, 2, 3, "gpu07");
  CHECK(job_of(with(with(srun, secret), {{"SLURM_STEP_NODELIST", "a,b"}})).address == "a");
  CHECK(job_of(with(with(srun, secret), {{"SLURM_STEP_NODELIST", "r[1-2]n[3,5],x"}})).address == "r1n3");
}

TEST_CASE("distributed: what is no rank of several trains in one process") {
  // The script of `sbatch --ntasks 7` has Slurm's variables of the job, and a PROCID, but is no step.
  Variables script = srun;
  for (const char* name : {"SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"}) script.erase(name);
  script["SLURM_PROCID"] = "0";
  CHECK(job_of(script).size == 1);
  // The shell of salloc is a step of one task in a job of seven.
  CHECK(job_of(with(srun,
                    {{"SLURM_STEP_ID", "4294967290"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}}))
            .size == 1);
  CHECK(job_of({{"SLURM_JOB_ID", "77"}, {"SLURM_NTASKS", "7"}}).size == 1);
  CHECK(job_of({{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}}).size == 1);
  CHECK(job_of({{"RANK", ""}, {"PURSUIT_RANK", ""}}).size == 1);
  CHECK(job_of(with(torchrun,
                    {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}}))
            .size == 1);
  CHECK(job_of(with(open_mpi, {{"OMPI_COMM_WORLD_RANK", "0"},
                               {"OMPI_COMM_WORLD_SIZE", "1"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}))
            .size == 1);
}

TEST_CASE("distributed: one launcher inside of another") {
  CHECK(job_of(with(srun, torchrun)).launcher == "torchrun");
  CHECK(job_of(with(srun, open_mpi)).launcher == "Open MPI");
  // srun's PMI sets PMI_RANK too.
  CHECK(job_of(with(with(srun, secret), {{"PMI_RANK", "5"}, {"PMI_SIZE", "7"}})).launcher == "Slurm");
  CHECK(job_of(with(torchrun, {{"PURSUIT_RANK", "0"}, {"PURSUIT_RANKS", "2"}})).launcher == "pursuit");
}

TEST_CASE("distributed: variables that are missing or contradict each other are one clear line") {
  const auto says = [](const Variables& variables, const std::string& text) {
    const std::string error = error_of(variables);
    INFO(error);
    CHECK(error.find(text) != std::string::npos);
    CHECK(error.find('\n') == std::string::npos);
  };
  says({{"RANK", "1"}}, "RANK is set, but WORLD_SIZE is not");
  says({{"WORLD_SIZE", "2"}}, "WORLD_SIZE is set, but RANK is not");
  says({{"PURSUIT_RANKS", "2"}}, "PURSUIT_RANKS is set, but PURSUIT_RANK is not");
  says(with(torchrun, {{"LOCAL_RANK", ""}}), "LOCAL_RANK is not");
  says(with(torchrun, {{"MASTER_ADDR", ""}}), "MASTER_ADDR is not");
  says(with(torchrun, {{"RANK", "4"}}), "RANK is '4', need a whole number from 0 to 3");
  says(with(torchrun, {{"RANK", "-1"}}), "RANK is '-1'");
  says(with(torchrun, {{"WORLD_SIZE", "4x\n"}}), "WORLD_SIZE is '4x\\n'");
  says(with(torchrun, {{"LOCAL_WORLD_SIZE", "5"}}),
       "LOCAL_WORLD_SIZE is '5', need a whole number from 1 to 4");
  says(with(torchrun, {{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}}), "set PURSUIT_JOB_SECRET");
  says(with(torchrun, {{"PURSUIT_JOB_SECRET", "short"}}), "has 5 characters, need at least 16");
  says({{"PURSUIT_RANK", "0"}, {"PURSUIT_RANKS", "2"}, {"PURSUIT_PORT", "65536"}}, "PURSUIT_PORT is '65536'");
  says({{"PURSUIT_RANK", "0"}, {"PURSUIT_RANKS", "2"}, {"PURSUIT_ADDRESS", "a"}},
       "PURSUIT_LOCAL_RANKS is not");
  says(with(with(srun, secret), {{"SLURM_STEP_TASKS_PER_NODE", "x"}}), "SLURM_STEP_TASKS_PER_NODE is 'x'");
  says(with(with(srun, secret), {{"SLURM_STEP_NODELIST", ""}}), "names no host");
  says(srun, "set PURSUIT_JOB_SECRET");
}

TEST_CASE("distributed: ranks of one job look for each other at the same ports, other jobs elsewhere") {
  const std::vector<int> ports = candidate_ports(job_of(torchrun));
  CHECK(std::set<int>(ports.begin(), ports.end()).size() == 16);
  for (const int port : ports) CHECK((port >= 20000 && port < 32768));
  CHECK(ports == candidate_ports(job_of(with(torchrun, {{"RANK", "0"}, {"LOCAL_RANK", "0"}}))));
  CHECK(ports == candidate_ports(job_of(with(torchrun, {{"TORCHELASTIC_RESTART_COUNT", "1"}}))));
  CHECK(ports != candidate_ports(job_of(with(torchrun, {{"TORCHELASTIC_RUN_ID", "2"}}))));
  CHECK(ports != candidate_ports(job_of(with(torchrun, {{"MASTER_PORT", "29501"}}))));
  CHECK(candidate_ports(job_of({{"PURSUIT_RANK", "1"}, {"PURSUIT_RANKS", "4"}, {"PURSUIT_PORT", "4000"}})) ==
        std::vector<int>{4000});
  CHECK(candidate_ports(job_of(with(torchrun, {{"PURSUIT_PORT", "4000"}}))) == std::vector<int>{4000});
}

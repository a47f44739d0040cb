#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pursuit::distributed {

// This process's place among those that train together, each of them a rank. Without a launcher: one process.
struct Job {
  int rank = 0, size = 1;              // of the whole job
  int local_rank = 0, local_size = 1;  // on this machine
  std::string launcher{};              // "", "pursuit", "torchrun", "Open MPI", "MPICH" or "Slurm"
  std::string identity{};  // the same on all ranks, and another for every other job that runs at the time
  std::string address{};   // where rank 0 meets the others: a host's name, or an address of it
  int port = 0;            // of rank 0; 0: the first free one of candidate_ports()
  int listener = -1;       // of rank 0: a listening socket that the launcher opened at that port, or -1
  std::string secret{};    // known to all ranks; empty: a file of this user (see secret.h)

  bool on_one_machine() const { return local_size == size; }
};

// The value of a variable of the environment; null where there is none.
using Environment = std::function<const char*(const char*)>;

// What the first of these launchers that is found says: our own (PURSUIT_RANK, PURSUIT_RANKS), torchrun
// (RANK, WORLD_SIZE), Open MPI (OMPI_COMM_WORLD_RANK), MPICH's Hydra (PMI_RANK with MPI_LOCALRANKID), srun
// (SLURM_PROCID in a step of more than one task: a shell of salloc and a script of sbatch are one process).
// Rank 0 is met at PURSUIT_ADDRESS, else on loopback if all ranks are on this machine, else at MASTER_ADDR,
// else on the launcher's first host. Throws Error where variables are missing or contradict each other, and
// where ranks on several machines have no PURSUIT_JOB_SECRET.
Job job_from_environment();
Job job_from_environment(const Environment& environment);

// Where rank 0 listens if no port was named: it takes the first that is free, and the others try them in
// turn. Below the ports that systems give to outgoing connections.
std::vector<int> candidate_ports(const Job& job);

}  // namespace pursuit::distributed

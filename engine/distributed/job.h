#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pursuit::distributed {

// This process's rank among the processes that train together. Without a launcher: one process.
struct Job {
  int rank = 0, size = 1;              // of the whole job
  int local_rank = 0, local_size = 1;  // on this machine
  std::string launcher{};              // "", "pursuit", "torchrun", "Open MPI", "MPICH" or "Slurm"
  std::string identity{};  // the same on all ranks, different from other jobs that run at the time
  std::string address{};   // where rank 0 listens: a host name or address
  int port = 0;            // of rank 0, by PURSUIT_PORT; 0: the first free one of candidate_ports()
  int listener = -1;       // on rank 0: a socket that the launcher opened on that port, or -1
  std::string secret{};    // known to all ranks; empty: a file of this user (see secret.h)

  bool on_one_machine() const { return local_size == size; }
};

// The value of an environment variable; null if it is not set.
using Environment = std::function<const char*(const char*)>;

// Reads the environment of the first of these launchers that is found: our own (PURSUIT_RANK, PURSUIT_RANKS),
// torchrun (RANK, WORLD_SIZE), Open MPI (OMPI_COMM_WORLD_RANK), MPICH's Hydra (PMI_RANK with
// MPI_LOCALRANKID), srun (SLURM_PROCID in a step of more than one task; a shell of salloc or script of sbatch
// is one process). Rank 0 is at PURSUIT_ADDRESS, else on loopback if all ranks are on this machine, else at
// MASTER_ADDR, else on the launcher's first host. Throws Error if variables are missing or inconsistent, or
// if ranks on several machines have no PURSUIT_JOB_SECRET.
Job job_from_environment();
Job job_from_environment(const Environment& environment);

// The ports that rank 0 tries to listen on if none was named; it takes the first free one, and the other
// ranks try them in turn. They are below the range of ephemeral ports.
std::vector<int> candidate_ports(const Job& job);

}  // namespace pursuit::distributed

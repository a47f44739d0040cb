#pragma once
#include <functional>
#include <memory>

#include "apps/training/fields.h"
#include "engine/distributed/communicator.h"

// Data-parallel training by several processes, see engine/distributed.
namespace pursuit::apps {

struct RankOptions {
  bool ordered_reduce = false, check_replicas = false;
  DType wire = DType::f32;
};

// Sets the batches that each rank accumulates so that a step has `batches` in all. Throws Error if the ranks
// cannot share them equally.
void keep_batches(int64_t batches, TrainingFields& fields);

// Starts this program with its own arguments as `ranks` processes on this machine and waits for them. A stop
// signal is passed on to them; if one is lost the others end. Returns the first exit code that is not 0.
// Throws Error for more than 8 ranks per processor.
int launch_ranks(int64_t ranks);

// Connects to the other ranks of this job (without a launcher there are none), runs body(ranks) and returns
// its exit code. With the device "cuda" every rank of a machine gets its own GPU. Notes of ranks above 0
// begin with the rank. An exception ends the other ranks too, which print its text.
int with_ranks(const std::string& device, const RankOptions& options,
               const std::function<int(distributed::Communicator& ranks)>& body);

// A hash of torchrun's job id and the command line, which config.json records. Empty under other launchers:
// only torchrun restarts a job when a rank is lost.
std::string job_name();
// True if the launcher restarted this job and the folder holds the run that the job began.
bool began_before(const std::string& folder);

// A rank's share of the evaluation's batches.
inline data::Share share_of_evaluation(const distributed::Communicator& ranks) {
  return {ranks.rank(), 1, ranks.size()};
}

// Sums the counts over all ranks, in place.
void add_up(distributed::Communicator& ranks, std::vector<int64_t>& counts);
// Reduces one value per rank.
double reduced(distributed::Communicator& ranks, double value, distributed::Reduction reduction);
// The values of all ranks, in the order of the ranks.
template <class T> std::vector<T> gathered(distributed::Communicator& ranks, T value) {
  const Tensor mine = from_vector(std::vector<T>{value}, {1});
  const Tensor all = empty({ranks.size(), 1}, mine.dtype());
  ranks.all_gather(mine, all);
  return {all.data<T>(), all.data<T>() + ranks.size()};
}

}  // namespace pursuit::apps

#pragma once
#include <functional>
#include <memory>

#include "apps/training/fields.h"
#include "engine/distributed/communicator.h"

// Training by several processes, see engine/distributed.
namespace pursuit::apps {

struct RankOptions {
  bool ordered_reduce = false, check_replicas = false;
  DType wire = DType::f32;
};

// Sets how many batches each rank accumulates so that a step has as many `batches` as before. Throws Error if
// the ranks cannot share them equally.
void keep_batches(int64_t batches, TrainingFields& fields);

// Starts this program with its own arguments as so many ranks of this machine, and waits for them. What stops
// this process stops them; one that is lost ends the others. Returns their exit code. Throws
// Error if they are more than 8 a processor.
int launch_ranks(int64_t ranks);

// Runs body(ranks) with the other ranks of this process's job; without a launcher it is the only one. Of the
// device "cuda" every rank of a machine has a GPU of its own. Notes
// of other ranks than 0 begin with their number. An exception ends the others too, with its text. Returns the
// body's exit code.
int with_ranks(const std::string& device, const RankOptions& options,
               const std::function<int(distributed::Communicator& ranks)>& body);

// What the config.json of a run says of the job that trains it: torchrun's name for it and the command line.
// Empty under another launcher: only torchrun starts a job again when a rank is lost.
std::string job_name();
// Whether the launcher started this job again, and the folder holds the run that it began.
bool began_before(const std::string& folder);

// A rank's part of the evaluation's batches.
inline data::Share share_of_evaluation(const distributed::Communicator& ranks) {
  return {ranks.rank(), 1, ranks.size()};
}

// The sum over all ranks, in place.
void add_up(distributed::Communicator& ranks, std::vector<int64_t>& counts);
// What the reduction makes of a number that every rank has.
double reduced(distributed::Communicator& ranks, double value, distributed::Reduction reduction);
// The numbers of all ranks.
template <class T> std::vector<T> gathered(distributed::Communicator& ranks, T value) {
  const Tensor mine = from_vector(std::vector<T>{value}, {1});
  const Tensor all = empty({ranks.size(), 1}, mine.dtype());
  ranks.all_gather(mine, all);
  return {all.data<T>(), all.data<T>() + ranks.size()};
}

}  // namespace pursuit::apps

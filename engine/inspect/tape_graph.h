#pragma once
#include <string>
#include <utility>
#include <vector>

#include "engine/core/observer.h"

// The recorded graph as a list and as a picture:
//
//   const TapeRecorder recorder;
//   const Tensor loss = cross_entropy(model(images), labels);
//   std::ofstream("tape.dot") << tape_to_dot(loss);  // dot -Tsvg tape.dot > tape.svg
namespace pursuit {

// While one lives, the calls of its thread's operators are remembered beside their nodes. It takes the place of a
// trace (engine/inspect/trace.h). One a process.
class TapeRecorder final : CallObserver {
 public:
  TapeRecorder();
  ~TapeRecorder() override;
  TapeRecorder(const TapeRecorder&) = delete;
  TapeRecorder& operator=(const TapeRecorder&) = delete;

 private:
  const char* begin(const char* name, bool backward) override;
  void end(const Tensor& result) noexcept override;
  CallObserver* before_;
};

struct TapeNode {
  std::string name;  // of the operator; of a leaf as it was given, else "leaf"
  bool leaf = false;
  std::string result = {};  // "f32[64, 197, 576]"; of a node that no recorder saw empty, as what follows is 0
  double milliseconds = 0;  // of the call; on a GPU, of launching it
  // What the call allocated and is still held, as the pool rounds it: the result, where somebody keeps it, and what
  // the operator keeps for backward. Summed over all nodes this is what the forward pass has taken of the pool.
  int64_t bytes = 0;
  std::vector<size_t> inputs = {};  // their places in the list
};
// The nodes that y depends on, inputs before users, and last, where there is any, the memory of calls off the tape.
// `leaves` gives names to parameters.
std::vector<TapeNode> tape_of(const Tensor& y,
                              const std::vector<std::pair<std::string, Tensor>>& leaves = {});

// The same as a graph for Graphviz; named leaves stand in the box of the operator that takes them.
std::string tape_to_dot(const Tensor& y, const std::vector<std::pair<std::string, Tensor>>& leaves = {});

}  // namespace pursuit

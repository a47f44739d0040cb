#pragma once
#include <string>
#include <utility>
#include <vector>

#include "engine/core/observer.h"

// The recorded autograd graph as a list and as a picture:
//
//   const TapeRecorder recorder;
//   const Tensor loss = cross_entropy(model(images), labels);
//   std::ofstream("tape.dot") << tape_to_dot(loss);  // dot -Tsvg tape.dot > tape.svg
namespace pursuit {

// While one lives, this thread's operator calls are recorded along with their nodes. Replaces an active trace
// (engine/inspect/trace.h). At most one per process.
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
  std::string name;  // of the operator; of a leaf as given, else "leaf"
  bool leaf = false;
  std::string result = {};  // "f32[64, 197, 576]"; empty, with zeros below, if no recorder saw the call
  double milliseconds = 0;  // time of the call; on a GPU, of its launch
  // Bytes allocated by the call and still held, as rounded by the pool: the result if something references
  // it, and what is saved for backward. The sum over all nodes is what forward has taken of the pool.
  int64_t bytes = 0;
  std::vector<size_t> inputs = {};  // indices into the list
};
// The nodes that y depends on, inputs first, followed by the memory of calls that are not on the tape, if
// any. `leaves` names parameters.
std::vector<TapeNode> tape_of(const Tensor& y,
                              const std::vector<std::pair<std::string, Tensor>>& leaves = {});

// The same as a Graphviz graph; named leaves are shown in the box of the operator that reads them.
std::string tape_to_dot(const Tensor& y, const std::vector<std::pair<std::string, Tensor>>& leaves = {});

}  // namespace pursuit

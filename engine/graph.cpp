#include "engine/graph.h"

#include "cuda/runtime.h"

namespace pursuit {

Graph::Graph(Device device, const std::function<void()>& work) : device_(device), arena_(device) {
  cuda::begin_capture(device.index);
  try {
    work();
  } catch (...) {
    cuda::cancel_capture(device.index);
    throw;
  }
  handle_ = cuda::end_capture(device.index);
  arena_.close();
}

Graph::~Graph() {
  try {
    cuda::synchronize(device_.index);
  } catch (const Error&) {  // an earlier kernel failed; that was or will be said elsewhere
  }
  cuda::destroy_graph(handle_);
}

void Graph::launch() const { cuda::launch_graph(handle_, device_.index); }

}  // namespace pursuit

#include "engine/step/graph.h"

#include "cuda/runtime.h"

namespace pursuit {

Graph::Graph(Device device, const std::function<void()>& work) : device_(device), arena_(device) {
  cuda::begin_capture(device.index);
  list_writes(&written_);
  try {
    work();
  } catch (...) {
    list_writes(nullptr);
    cuda::cancel_capture(device.index);
    throw;
  }
  list_writes(nullptr);
  std::erase_if(written_, [](const auto& storage) { return storage.expired(); });
  handle_ = cuda::end_capture(device.index);
  arena_.close();
}

Graph::~Graph() {
  try {
    cuda::synchronize(device_.index);
  } catch (const Error&) {  // an earlier kernel failed; reported elsewhere
  }
  cuda::destroy_graph(handle_);
}

void Graph::launch() const {
  cuda::launch_graph(handle_, device_.index);
  for (const auto& storage : written_)
    if (const Storage s = storage.lock()) count_write(s, "a recorded step");
}

}  // namespace pursuit

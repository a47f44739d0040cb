#include "engine/step/graph.h"

#include "cuda/runtime.h"

namespace pursuit {

namespace {
thread_local std::vector<std::weak_ptr<void>>* recorded_writes = nullptr;
}  // namespace

void note_write(const Storage& storage) {
  if (recorded_writes) recorded_writes->push_back(storage);
}

Graph::Graph(Device device, const std::function<void()>& work) : device_(device), arena_(device) {
  cuda::begin_capture(device.index);
  recorded_writes = &written_;
  try {
    work();
  } catch (...) {
    recorded_writes = nullptr;
    cuda::cancel_capture(device.index);
    throw;
  }
  recorded_writes = nullptr;
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

#pragma once
#include <functional>
#include <vector>

#include "engine/memory.h"

namespace pursuit {

// What `work` does on a GPU, recorded once and run as often as wanted with one call (a CUDA graph). While it
// is recorded nothing runs, so nothing may wait for the GPU or read a result; kernels must have run before.
// Every run uses the same memory: tensors made inside stay with the graph, those from outside must outlive
// it, and new values come in and results go out through such tensors.
class Graph {
 public:
  Graph(Device device, const std::function<void()>& work);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch() const;

 private:
  Device device_;
  Arena arena_;
  std::vector<std::weak_ptr<void>> written_;  // storages that `work` writes to in place, so every run does
  void* handle_ = nullptr;
};

// What Tensor::bump_version tells the graph that this thread records, if there is one.
void note_write(const Storage& storage);

}  // namespace pursuit

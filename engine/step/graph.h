#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "engine/core/memory.h"

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

// Work on a GPU that is run over and over: the first time operator by operator, from the second on as a
// graph, with the same result. On a CPU, and unless it is to be recorded, always operator by operator.
class Replayed {
 public:
  Replayed(Device device, bool record) : device_(device), record_(record && device.is_cuda()) {}
  template <class F> void operator()(const F& work) {
    if (record_ && ran_ && !graph_) graph_ = std::make_unique<Graph>(device_, work);
    graph_ ? graph_->launch() : work();
    ran_ = true;
  }

 private:
  Device device_;
  bool record_, ran_ = false;
  std::unique_ptr<Graph> graph_;
};

// What Tensor::bump_version tells the graph that this thread records, if there is one.
void note_write(const Storage& storage);

}  // namespace pursuit

#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "engine/core/memory.h"

namespace pursuit {

// A CUDA graph: captures the GPU work of `work` once and replays it with one call. Nothing runs during
// capture, so `work` must not synchronise or read results, and its kernels must have run once before. All
// replays use the same memory: tensors made inside belong to the graph, tensors from outside must outlive it,
// and new inputs and results pass through such tensors.
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
  std::vector<std::weak_ptr<void>> written_;  // storages that `work`, and so every replay, writes to in place
  void* handle_ = nullptr;
};

// GPU work that is repeated: runs operator by operator the first time and is captured as a graph the second
// time, with the same results. On a CPU, or if capture is off, it always runs operator by operator.
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

}  // namespace pursuit

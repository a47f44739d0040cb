#include "engine/inspect/trace.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/base/line_prefix.h"
#include "engine/core/observer.h"
#include "engine/core/shapes_only.h"
#include "engine/files/atomic_file.h"

namespace pursuit {

namespace {

constexpr size_t most_events = size_t(1) << 19;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int thread_number() {
  static std::atomic<int> threads = 0;
  thread_local const int number = ++threads;
  return number;
}

// A span or, if the name is null, the pool's bytes at `start`.
struct Event {
  const char* name;  // operator name or literal: never freed
  int64_t start, length;
  int thread;
  bool backward;
  DType dtype;
  Shape shape;
};

struct OpenCall {
  const char* name;
  bool backward;
  int64_t start;
};
thread_local std::vector<OpenCall> open_calls;

class Trace final : public CallObserver {
 public:
  explicit Trace(std::string file) : file_(std::move(file)), start_(now_ns()) {}

  const char* begin(const char* name, bool backward) override {
    open_calls.push_back({name, backward, shapes_only() ? -1 : now_ns()});
    return name;
  }
  void end(const Tensor& result) noexcept override {
    if (open_calls.empty()) return;  // it began before the trace
    const OpenCall call = open_calls.back();
    open_calls.pop_back();
    if (call.start < 0) return;  // nothing was computed
    const int64_t now = now_ns();
    const Shape shape = result.defined() ? result.shape() : Shape{};
    add({call.name, call.start, now - call.start, thread_number(), call.backward, result.dtype(), shape},
        result.defined());
    if (open_calls.empty() && result.defined())
      add({nullptr, now, memory_stats(result.device()).allocated, 0, false, DType::u8, {}}, false);
  }
  void span(const char* name, int64_t start) noexcept {
    add({name, start, now_ns() - start, thread_number(), false, DType::u8, {}}, false);
  }

  void write() {
    std::lock_guard lock(mutex_);
    if (events_.empty()) return;  // this process only started others
    std::string path = file_;
    if (!line_prefix.empty()) {  // "[rank 3] "
      const std::string rank = line_prefix.substr(6, line_prefix.find(']') - 6);
      const std::filesystem::path name(file_);
      path =
          (name.parent_path() / (name.stem().string() + ".rank" + rank + name.extension().string())).string();
    }
    AtomicFile file(path);
    const auto put = [&](const std::string& text) { file.write(text.data(), text.size()); };
    const auto us = [](int64_t ns) {
      return std::to_string(ns / 1000) + "." + std::to_string(ns % 1000 + 1000).substr(1);
    };
    const std::string pid = std::to_string(getpid());
    put("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped\":" + std::to_string(dropped_) +
        "},\"traceEvents\":[\n");
    put("{\"ph\":\"M\",\"pid\":" + pid +
        ",\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"pursuit\"}}");
    for (const auto& [event, has_result] : events_) {
      const std::string where = ",\"pid\":" + pid + ",\"tid\":" + std::to_string(event.thread) +
                                ",\"ts\":" + us(event.start - start_);
      if (!event.name) {
        put(",\n{\"ph\":\"C\"" + where +
            ",\"name\":\"memory pool\",\"args\":{\"bytes\":" + std::to_string(event.length) + "}}");
        continue;
      }
      put(",\n{\"ph\":\"X\"" + where + ",\"dur\":" + us(event.length) + ",\"name\":\"" + event.name +
          "\",\"cat\":\"" + (event.backward ? "backward" : "forward") + "\"");
      put(has_result
              ? ",\"args\":{\"result\":\"" + std::string(name_of(event.dtype)) + event.shape.str() + "\"}}"
              : "}");
    }
    put("\n]}\n");
    file.commit();
  }

 private:
  void add(const Event& event, bool has_result) noexcept {
    std::lock_guard lock(mutex_);
    if (events_.size() >= most_events) {
      ++dropped_;
      return;
    }
    try {
      events_.push_back({event, has_result});
    } catch (const std::bad_alloc&) {
      ++dropped_;
    }
  }

  const std::string file_;
  const int64_t start_;
  std::mutex mutex_;
  std::vector<std::pair<Event, bool>> events_;
  int64_t dropped_ = 0;
};

std::atomic<Trace*> trace = nullptr;
// Never destroyed: other threads may finish calls while the program exits.
std::vector<std::unique_ptr<Trace>>& traces = *new std::vector<std::unique_ptr<Trace>>;

}  // namespace

void start_trace() {
  const char* file = std::getenv("PURSUIT_TRACE");
  if (!file || !*file || trace) return;
  { const AtomicFile writable(file); }  // report an error now, not at the end
  traces.push_back(std::make_unique<Trace>(file));
  trace = traces.back().get();
  call_observer = trace.load();
}

void finish_trace() {
  Trace* const t = trace.exchange(nullptr);
  if (!t) return;
  call_observer = nullptr;
  t->write();
}

TraceSpan::TraceSpan(const char* name) : name_(trace.load(std::memory_order_acquire) ? name : nullptr) {
  if (name_) start_ = now_ns();
}
TraceSpan::~TraceSpan() {
  Trace* const t = name_ ? trace.load(std::memory_order_acquire) : nullptr;
  if (t) t->span(name_, start_);
}

}  // namespace pursuit

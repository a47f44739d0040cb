#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>

// The simulated GPU's streams. Hardware may do what they are given at any time between the moment when it may
// be done and that when somebody waits for it. Two extremes of that are simulated, in turn by the variable
// SIMT_STREAMS: "late" (without it), where work is done at once and what lies on the streams beside it only
// when somebody waits for it; and "early", where reductions between ranks are done as soon as events allow
// and work when somebody waits for it. What runs without an event that it needs comes too early in one of
// them or too late in the other.
namespace simt {

using Work = std::function<void()>;
struct Mark;
struct Recording;

class Stream {
 public:
  explicit Stream(bool at_once) : at_once_(at_once) {}
  void give(Work work);
  std::shared_ptr<Mark> record();
  void wait_for(const std::shared_ptr<Mark>& mark);
  void run_until(size_t number);
  size_t given() const { return done_ + waiting_.size() + running_; }

  // Work goes there instead.
  std::shared_ptr<Recording> recording;

 private:
  std::deque<Work> waiting_;
  size_t done_ = 0;
  bool at_once_, running_ = false;
};

// A place in a stream, or in a recording: what is before it.
struct Mark {
  Stream* stream;
  size_t number;
  std::weak_ptr<Recording> recording = {};  // none: `recorded` is false
  bool recorded = false;
  size_t arrivals = 0;  // copies to the host that an event has seen
  std::atomic<bool> done = false;
};

// What streams were given while a graph was captured.
struct Recording {
  struct Node {
    Stream* stream;
    Work work;
    std::shared_ptr<Mark> after;  // or: the stream waits
  };
  std::deque<Node> nodes;
};

extern Stream work, copies, ranks;
extern Stream arrivals;  // copies to the host, which are seen when it waits for an event behind them

void submit(Work work);  // to the stream for work
void run_all();
// As cudaFree waits for the GPU; what fails is thrown at the next wait.
void run_before_release() noexcept;
void begin_recording();
bool recording();
void forbid_recording(const char* what);
// Of the recording: something that a real one would not survive.
void break_recording(const std::string& why);
std::shared_ptr<Recording> end_recording();
void cancel_recording();
void launch(const std::shared_ptr<Recording>& recording);

}  // namespace simt

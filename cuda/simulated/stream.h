#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>

// The simulated GPU's streams. On hardware, work may run any time between its dependencies being
// met and a synchronisation. Two extremes are simulated, selected by the variable SIMT_STREAMS:
// "late" (the default) runs work at once, and work on side streams only when something waits for
// it; "early" runs reductions between ranks as soon as events allow, and work when something
// waits for it. Work without a needed event runs too early in one of them or too late in the
// other.
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

  // Set during capture: work is recorded there instead.
  std::shared_ptr<Recording> recording;

 private:
  std::deque<Work> waiting_;
  size_t done_ = 0;
  bool at_once_, running_ = false;
};

// A position in a stream, or in a recording.
struct Mark {
  Stream* stream;
  size_t number;
  std::weak_ptr<Recording> recording = {};  // null: `recorded` is false
  bool recorded = false;
  size_t arrivals = 0;  // copies to the host that an event has seen
  std::atomic<bool> done = false;
};

// The work given to streams during a graph capture.
struct Recording {
  struct Node {
    Stream* stream;
    Work work;
    std::shared_ptr<Mark> after;  // or: the stream waits for it
  };
  std::deque<Node> nodes;
};

extern Stream work, copies, ranks;
extern Stream arrivals;  // copies to the host, visible when it waits for an event behind them

void submit(Work work);  // to the work stream
void run_all();

// A kernel that fails makes the GPU unusable: require_sound throws in every later call, in a real program until
// it ends, here until forgive.
void break_down(const std::string& why) noexcept;
void require_sound();
void forgive();

// Synchronises as cudaFree does; a failure is thrown at the next synchronisation.
void run_before_release() noexcept;
void begin_recording();
bool recording();
void forbid_recording(const char* what);
// Invalidates the recording, after an operation that invalidates a real capture.
void break_recording(const std::string& why);
std::shared_ptr<Recording> end_recording();
void cancel_recording();
void launch(const std::shared_ptr<Recording>& recording);

}  // namespace simt

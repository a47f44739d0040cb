#include "cuda/simulated/stream.h"

#include <cstdlib>
#include <exception>
#include <map>
#include <utility>

#include "engine/base/error.h"

namespace simt {

namespace {

bool early() {
  const char* set = std::getenv("SIMT_STREAMS");
  const std::string order = set ? set : "late";
  if (order != "late" && order != "early")
    pursuit::fail("simt", "SIMT_STREAMS is '" + order + "'; known are late and early");
  return order == "early";
}

std::string broken, breakdown;
std::exception_ptr held_back;

// Runs a recording in the order of one stream; the other streams run when it waits for them.
class Replay {
 public:
  explicit Replay(const Recording& recording) : nodes_(recording.nodes) {}
  void run(const Stream* stream, size_t until) {
    for (size_t& i = next_[stream]; i < until;) {
      const Recording::Node& node = nodes_[i++];
      if (node.stream != stream) continue;
      if (node.after)
        run(node.after->stream, node.after->number);
      else
        node.work();
    }
  }

 private:
  const std::deque<Recording::Node>& nodes_;
  std::map<const Stream*, size_t> next_;
};

// Whether the work stream waits for the end of every other stream that takes part.
bool joined(const Recording& recording) {
  std::map<const Stream*, size_t> last, waited;
  for (size_t i = 0; i < recording.nodes.size(); ++i) {
    const Recording::Node& node = recording.nodes[i];
    if (node.stream == &work && node.after) waited[node.after->stream] = node.after->number;
    if (node.stream != &work) last[node.stream] = i + 1;
  }
  for (const auto& [stream, end] : last)
    if (waited[stream] < end) return false;
  return true;
}

}  // namespace

Stream work(!early()), copies(false), ranks(early()), arrivals(false);

void break_down(const std::string& why) noexcept {
  if (breakdown.empty()) breakdown = why;
}

void require_sound() {
  if (!breakdown.empty())
    pursuit::fail("simt", "a kernel failed before, and with it every later call: " + breakdown);
}

void forgive() {
  breakdown.clear();
  held_back = nullptr;
}

void Stream::give(Work w) {
  require_sound();
  if (recording) {
    recording->nodes.push_back({this, std::move(w), nullptr});
    return;
  }
  waiting_.push_back(std::move(w));
  if (at_once_ && !running_) run_until(given());
}

void Stream::run_until(size_t number) {
  if (held_back) std::rethrow_exception(std::exchange(held_back, nullptr));
  require_sound();
  if (done_ < number && running_) pursuit::fail("simt", "streams wait for each other for ever");
  while (done_ < number) {
    const Work next = std::move(waiting_.front());
    waiting_.pop_front();
    running_ = true;
    try {
      next();
    } catch (...) {
      running_ = false;
      ++done_;
      throw;
    }
    running_ = false;
    ++done_;
  }
}

std::shared_ptr<Mark> Stream::record() {
  const auto mark = std::make_shared<Mark>();
  mark->stream = this;
  if (recording) {
    mark->recording = recording;
    mark->recorded = true;
    mark->number = recording->nodes.size();
    return mark;
  }
  mark->number = given() + 1;
  give([mark] {
    mark->arrivals = arrivals.given();
    mark->done = true;
  });
  return mark;
}

void Stream::wait_for(const std::shared_ptr<Mark>& mark) {
  if (mark->recorded) {
    const auto theirs = mark->recording.lock();
    if (!theirs || theirs != work.recording)
      pursuit::fail("simt", "a stream waits for an event of a recording that has ended");
    recording = theirs;  // this stream now takes part
    recording->nodes.push_back({this, {}, mark});
  } else if (recording) {
    pursuit::fail("simt", "a recorded stream waits for an event that is not in the recording");
  } else {
    give([mark] { mark->stream->run_until(mark->number); });
  }
}

void submit(Work w) { work.give(std::move(w)); }

void run_all() {
  for (Stream* stream : {&work, &copies, &ranks, &arrivals}) stream->run_until(stream->given());
}

void run_before_release() noexcept {
  if (recording() || held_back) return;
  try {
    run_all();
  } catch (...) {
    held_back = std::current_exception();
  }
}

bool recording() { return work.recording != nullptr; }

void forbid_recording(const char* what) {
  if (recording()) pursuit::fail("simt", std::string(what) + " while a graph is captured");
}

void break_recording(const std::string& why) {
  if (recording()) broken = why;
}

void begin_recording() {
  forbid_recording("another capture begins");
  work.recording = std::make_shared<Recording>();
  broken.clear();
}

void cancel_recording() {
  for (Stream* stream : {&work, &copies, &ranks}) stream->recording.reset();
}

std::shared_ptr<Recording> end_recording() {
  const std::shared_ptr<Recording> done = work.recording;
  cancel_recording();
  if (!broken.empty()) pursuit::fail("simt", broken);
  if (!joined(*done)) pursuit::fail("simt", "a captured stream is not waited for when the capture ends");
  return done;
}

void launch(const std::shared_ptr<Recording>& recording) {
  forbid_recording("a graph is launched");
  submit([recording] {
    Replay replay(*recording);
    const size_t all = recording->nodes.size();
    if (early())
      for (const Stream* stream : {&copies, &ranks}) replay.run(stream, all);
    replay.run(&work, all);
  });
}

}  // namespace simt

#pragma once
#include <cstdint>
#include <string>

// PURSUIT_TRACE=FILE writes a trace for Perfetto (ui.perfetto.dev) or chrome://tracing: every operator call,
// forward and backward, with its result; steps, updates and evaluations; the data loader's rows; the bytes of
// the memory pool. On a GPU the time of a call is that of its launch. At most 2^19 events are kept, about 60
// MB; the file counts the dropped ones under otherData. With several ranks rank 0 writes FILE.json and the
// others FILE.rankN.json. A process that does none of this writes no file.
namespace pursuit {

// Starts a trace if PURSUIT_TRACE names a file. Throws Error if it cannot be written.
void start_trace();
// Writes the file; a no-op without a trace.
void finish_trace();

// A named span of this thread in the trace. Without a trace it costs one flag check.
class TraceSpan {
 public:
  explicit TraceSpan(const char* name);  // `name` is a string literal
  ~TraceSpan();
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  const char* name_;  // null without a trace
  int64_t start_ = 0;
};

}  // namespace pursuit

#pragma once
#include <cstdint>
#include <string>

// PURSUIT_TRACE=FILE: what a program does and when, as a file that Perfetto (ui.perfetto.dev) and chrome://tracing
// open: every call of an operator, forward and backward, with its result; steps, updates and evaluations; the loader's rows; the bytes
// of the memory pool. On a GPU a call's time is that of launching it. At most 2^19 events are kept, about 60 MB; how
// many more there were stands in the file, under otherData. With ranks FILE.json is rank 0's and FILE.rankN.json the
// others'. A process that did nothing of this writes none.
namespace pursuit {

// Begins where PURSUIT_TRACE names a file. Throws Error where the file could not be written.
void start_trace();
// Writes the file; nothing where no trace has begun.
void finish_trace();

// A stretch of time of this thread in the trace. Costs a look at a flag where there is none.
class TraceSpan {
 public:
  explicit TraceSpan(const char* name);  // a literal
  ~TraceSpan();
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  const char* name_;  // null where there is no trace
  int64_t start_ = 0;
};

}  // namespace pursuit

#include "apps/bench/timeline.h"

#include <algorithm>

#include "engine/base/error.h"

namespace pursuit::bench {

namespace {

constexpr double index_bytes = 4;
constexpr double conversion_bytes = 12;  // per element: f32 to bf16 before, bf16 to f32 after
constexpr double scatter_bytes = 12;     // per element of a row: read, add to f32, write

double memory_ms(double bytes) { return bytes / hbm_bandwidth * 1e3; }

}  // namespace

Replay replay(double backward, const std::vector<Collective>& collectives, double contention) {
  Replay r;
  double done = 0, now = 0, busy = 0;  // backward work done, current time, end of the last collective
  const auto run_until = [&](double work) {
    if (work <= done) return;
    const double beside = std::clamp((busy - now) * (1 - contention), 0.0, work - done);
    now += beside / (1 - contention) + work - done - beside;
    done = work;
  };
  for (const Collective& c : collectives) {
    run_until(c.ready);
    const double begin = std::max(now, busy);
    busy = begin + c.ms;
    r.collectives.push_back({begin, busy});
  }
  run_until(backward);
  r.backward = now;
  r.end = std::max(now, busy);
  return r;
}

std::vector<Slice> slices(const std::vector<StepTimes::Gradient>& gradients, int count) {
  int64_t total = 0;
  for (const StepTimes::Gradient& g : gradients) total += g.elements;
  std::vector<Slice> out;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = total * i / count, end = total * (i + 1) / count;
    Slice slice{end - begin, 0};
    int64_t at = 0;
    for (const StepTimes::Gradient& g : gradients) {
      if (at < end && at + g.elements > begin) slice.ready = std::max(slice.ready, g.ready);
      at += g.elements;
    }
    if (slice.elements) out.push_back(slice);
  }
  return out;
}

Exposure expose(const StepTimes& step, const Exchange& exchange, const Network& network) {
  Exposure e;
  if (network.ranks == 1) return e;
  std::vector<Collective> collectives;
  const auto add = [&](double ready, double bytes, double ms) {
    collectives.push_back({ready, ms});
    e.bytes += bytes;
    e.collectives_ms += ms;
  };
  const auto reduce = [&](const Slice& s) {
    const double bytes = double(s.elements) * exchange.bytes;
    const double conversion = exchange.bytes == 2 ? memory_ms(double(s.elements) * conversion_bytes) : 0;
    add(s.ready, bytes, network.all_reduce_ms(bytes) + conversion);
  };
  std::vector<StepTimes::Gradient> whole = step.gradients;
  const bool by_rows = !exchange.tied.empty();
  if (by_rows) {
    const auto tied =
        std::find_if(whole.begin(), whole.end(), [&](const auto& g) { return g.name == exchange.tied; });
    check(tied != whole.end(), "ddp", "the tied embedding is no parameter of the model");
    Slice of_output{tied->elements, tied->ready};
    whole.erase(tied);
    // Backward begins with the output layer.
    for (const StepTimes::Gradient& g : whole) of_output.ready = std::min(of_output.ready, g.ready);
    reduce(of_output);
  }
  for (const Slice& s : slices(whole, exchange.slices)) reduce(s);
  double after = 0;
  if (by_rows) {
    const double numbers = double(exchange.rows * exchange.width);
    const double bytes = numbers * exchange.bytes + double(exchange.rows) * index_bytes;
    add(step.backward, bytes, network.all_gather_ms(bytes));
    // A rank's own rows are already added in its backward pass.
    after = memory_ms((network.ranks - 1) * numbers * scatter_bytes);
  }
  e.exposed_ms = replay(step.backward, collectives, exchange.contention).end + after - step.backward;
  return e;
}

}  // namespace pursuit::bench

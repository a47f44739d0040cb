#include "apps/bench/network.h"

namespace pursuit::bench {

namespace {

// Time of a ring of `steps` steps in which every GPU sends `bytes` in total.
double ring_ms(double steps, double bytes, double bandwidth, double latency) {
  return steps * latency * 1e-3 + bytes / bandwidth * 1e-6;
}

}  // namespace

double Network::all_reduce_ms(double bytes) const {
  const double local = double(ranks) / nodes;
  return ring_ms(2 * (local - 1), 2 * (local - 1) / local * bytes, bandwidth, latency) +
         ring_ms(2.0 * (nodes - 1), 2.0 * (nodes - 1) / nodes * bytes / local, node_bandwidth, node_latency);
}

double Network::all_gather_ms(double bytes) const {
  const double local = double(ranks) / nodes;
  return ring_ms(nodes - 1, (nodes - 1) * bytes, node_bandwidth, node_latency) +
         ring_ms(local - 1, (local - 1) * nodes * bytes, bandwidth, latency);
}

}  // namespace pursuit::bench

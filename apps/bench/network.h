#pragma once

namespace pursuit::bench {

// The connections of GPUs and the times of collectives by the ring algorithm in the latency-bandwidth model
// (Thakur, Rabenseifner & Gropp 2005; Patarasuk & Yuan 2009). An all-reduce of S bytes on p ranks takes
//   2 (p - 1) latency + 2 (p - 1) / p S / bandwidth.
// Over several nodes it is hierarchical (Jia et al. 2018, arXiv 1807.11205): reduce-scatter in each node,
// all-reduce of every GPU's part with its peers in the other nodes, all-gather in each node.
struct Network {
  int ranks = 8, nodes = 1;  // all nodes have the same number of ranks
  // Per GPU, within its node and to other nodes: GB/s, and microseconds per step of the ring. The defaults
  // are NVLink of an H100 with NCCL's rings (nccl-tests issues 212, 290) and a 400 Gb/s card per GPU.
  double bandwidth = 370, latency = 2;
  double node_bandwidth = 46, node_latency = 10;

  double all_reduce_ms(double bytes) const;
  double all_gather_ms(double bytes) const;  // `bytes` of every rank
};

}  // namespace pursuit::bench

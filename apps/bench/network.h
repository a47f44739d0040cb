#pragma once

namespace pursuit::bench {

// How GPUs are connected, and what a collective on them takes by the ring algorithm in the latency-bandwidth
// model (Thakur, Rabenseifner & Gropp 2005; Patarasuk & Yuan 2009). An all-reduce of S bytes on p ranks:
// 2 (p - 1) latency + 2 (p - 1) / p S / bandwidth. Over several nodes it is hierarchical (Jia et al. 2018,
// arXiv 1807.11205): a reduce-scatter in each node, an all-reduce of every GPU's part with its peers in the
// other nodes, an all-gather in each node.
struct Network {
  int ranks = 8, nodes = 1;  // the nodes have as many ranks each
  // Of one GPU, in its node and to other nodes: GB/s, and microseconds of a step of the ring. By default
  // NVLink of an H100 as NCCL's rings use it (nccl-tests issues 212, 290), and a 400 Gb/s card for every GPU.
  double bandwidth = 370, latency = 2;
  double node_bandwidth = 46, node_latency = 10;

  double all_reduce_ms(double bytes) const;
  double all_gather_ms(double bytes) const;  // every rank gives so many
};

}  // namespace pursuit::bench

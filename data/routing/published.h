#pragma once
#include <string>
#include <vector>

#include "data/routing/instance.h"

namespace pursuit::data {

// An instance and what is known of its best solution.
struct SolvedInstance {
  RoutingInstance instance;
  Routes routes = {};    // verified; empty if the file has only its length
  double reference = 0;  // the length of `routes`, or of a best known solution
};

// Reads the instance files that LEHD (Luo et al. 2023) published, one instance a line, in four formats that
// are recognised by the first line:
//
//   x1 y1 ... xn yn output t1 ... tn t1                            TSP and a closed tour, nodes from 1
//   depot,x,y,customer,x1,y1,...,capacity,Q,demand,d1,...,cost,c,node_flag,<ids>,<flags>   CVRP; flag 1: the
//                                                                  customer is reached from the depot
//   ['name', 'length', 'x1', 'y1', ...]                            TSPLIB instances, EUC_2D
//   ['name', name, 'depot', x, y, 'customer', ..., 'demand', 0, ..., 'capacity', Q, 'cost', c, 'end']
//                                                                  CVRPLIB instances, EUC_2D
//
// Every solution is verified, and a given cost compared with its length. A file has at most 64 MiB. Throws
// Error that names the file and the line.
std::vector<SolvedInstance> read_published(const std::string& path);

}  // namespace pursuit::data

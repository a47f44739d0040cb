#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <set>

#include "data/routing/baselines.h"
#include "data/routing/local_search.h"
#include "data/routing/published.h"
#include "data/routing/tsplib.h"
#include "tests/message_of.h"
#include "tests/needs.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using namespace pursuit::data;

namespace {

std::string written(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  return path;
}

// The length of the shortest tour, by dynamic programming over sets of nodes (Held & Karp 1962).
double shortest_tour(const RoutingInstance& instance) {
  const size_t last = instance.nodes.size() - 1, sets = size_t(1) << last;
  constexpr double inf = std::numeric_limits<double>::infinity();
  std::vector<double> least(sets * last, inf);  // [set, end] from node `last`
  const auto d = [&](size_t a, size_t b) { return instance.distance(int64_t(a), int64_t(b)); };
  for (size_t end = 0; end < last; ++end) least[(size_t(1) << end) * last + end] = d(last, end);
  for (size_t set = 1; set < sets; ++set)
    for (size_t end = 0; end < last; ++end)
      for (size_t next = 0; least[set * last + end] < inf && next < last; ++next)
        if (!(set >> next & 1)) {
          double& to = least[(set | size_t(1) << next) * last + next];
          to = std::min(to, least[set * last + end] + d(end, next));
        }
  double shortest = inf;
  for (size_t end = 0; end < last; ++end)
    shortest = std::min(shortest, least[(sets - 1) * last + end] + d(end, last));
  return shortest;
}

// The shortest routes: of every set of customers that fits a vehicle its tour, and of all sets the cheapest
// cover.
double shortest_routes(const RoutingInstance& instance) {
  const size_t customers = instance.nodes.size() - 1, sets = size_t(1) << customers;
  constexpr double inf = std::numeric_limits<double>::infinity();
  std::vector<double> of_one(sets, inf), least(sets, inf);
  for (size_t set = 1; set < sets; ++set) {
    Route route;
    for (size_t i = 0; i < customers; ++i)
      if (set >> i & 1) route.push_back(int64_t(i) + 1);
    if (load(instance, route) > instance.capacity) continue;
    do of_one[set] = std::min(of_one[set], length(instance, {route}));
    while (std::next_permutation(route.begin(), route.end()));
  }
  least[0] = 0;
  for (size_t set = 1; set < sets; ++set)
    for (size_t part = set; part != 0; part = (part - 1) & set)
      least[set] = std::min(least[set], of_one[part] + least[set ^ part]);
  return least[sets - 1];
}

// Whether no path of a tour can be reversed, and no one to three nodes moved, to make it shorter.
bool locally_shortest(const RoutingInstance& instance, const Route& tour) {
  const double now = length(instance, {tour});
  const size_t n = tour.size();
  for (size_t i = 0; i < n; ++i)
    for (size_t j = i + 1; j < n; ++j) {
      Route other = tour;
      std::reverse(other.begin() + int64_t(i), other.begin() + int64_t(j) + 1);
      if (length(instance, {other}) < now - 1e-9) return false;
    }
  for (size_t i = 0; i < n; ++i)
    for (size_t nodes = 1; nodes <= 3; ++nodes) {
      Route turned = tour;
      std::rotate(turned.begin(), turned.begin() + int64_t(i), turned.end());
      Route moved(turned.begin(), turned.begin() + int64_t(nodes)),
          rest(turned.begin() + int64_t(nodes), turned.end());
      for (const bool reversed : {false, true}) {
        if (reversed) std::reverse(moved.begin(), moved.end());
        for (size_t at = 0; at <= rest.size(); ++at) {
          Route other = rest;
          other.insert(other.begin() + int64_t(at), moved.begin(), moved.end());
          if (length(instance, {other}) < now - 1e-9) return false;
        }
      }
    }
  return true;
}

RoutingInstance of_metric(Metric metric, std::vector<Location> nodes) {
  RoutingInstance instance;
  instance.nodes = std::move(nodes);
  instance.metric = metric;
  return instance;
}

// Three customers around a depot.
RoutingInstance three_customers() {
  RoutingInstance instance = of_metric(Metric::exact, {{0, 0}, {0, 3}, {4, 3}, {4, 0}});
  instance.demands = {0, 2, 2, 2};
  instance.capacity = 4;
  return instance;
}

}  // namespace

TEST_CASE("routing: distances round as TSPLIB's") {
  const auto d = [](Metric metric, double x, double y) { return distance(metric, {0, 0}, {x, y}); };
  CHECK(d(Metric::euc_2d, 1, 1) == 1);  // 1.41
  CHECK(d(Metric::euc_2d, 1, 2) == 2);  // 2.24
  CHECK(d(Metric::euc_2d, 2, 3) == 4);  // 3.61
  CHECK(d(Metric::ceil_2d, 1, 1) == 2);
  CHECK(d(Metric::ceil_2d, 3, 4) == 5);
  CHECK(d(Metric::att, 1, 1) == 1);   // 0.45
  CHECK(d(Metric::att, 10, 0) == 4);  // 3.16
  CHECK(d(Metric::att, 9, 3) == 3);   // exactly
  CHECK(d(Metric::exact, 3, 4) == 5);
}

TEST_CASE("routing: the published shortest tours of a GEO and an ATT instance") {
  // burma14: 3323.
  const RoutingInstance burma = of_metric(Metric::geo, {{16.47, 96.10},
                                                        {16.47, 94.44},
                                                        {20.09, 92.54},
                                                        {22.39, 93.37},
                                                        {25.23, 97.24},
                                                        {22.00, 96.05},
                                                        {20.47, 97.02},
                                                        {17.20, 96.29},
                                                        {16.30, 97.38},
                                                        {14.05, 98.12},
                                                        {16.53, 97.38},
                                                        {21.52, 95.59},
                                                        {19.41, 97.13},
                                                        {20.09, 94.55}});
  CHECK(shortest_tour(burma) == 3323);
  Random random(0, 0);
  CHECK(length(burma, local_search(burma, 100, random)) == 3323);
  // att48: 10628.
  const RoutingInstance att = of_metric(
      Metric::att,
      {{6734, 1453}, {2233, 10},   {5530, 1424}, {401, 841},   {3082, 1644}, {7608, 4458}, {7573, 3716},
       {7265, 1268}, {6898, 1885}, {1112, 2049}, {5468, 2606}, {5989, 2873}, {4706, 2674}, {4612, 2035},
       {6347, 2683}, {6107, 669},  {7611, 5184}, {7462, 3590}, {7732, 4723}, {5900, 3561}, {4483, 3369},
       {6101, 1110}, {5199, 2182}, {1633, 2809}, {4307, 2322}, {675, 1006},  {7555, 4819}, {7541, 3981},
       {3177, 756},  {7352, 4506}, {7545, 2801}, {3245, 3305}, {6426, 3173}, {4608, 1198}, {23, 2216},
       {7248, 3779}, {7762, 4595}, {7392, 2244}, {3484, 2829}, {6271, 2135}, {4985, 140},  {1916, 1569},
       {7280, 4899}, {7509, 3239}, {10, 2676},   {6807, 2993}, {5185, 3258}, {3023, 1942}});
  CHECK(length(att, local_search(att, 2000, random)) == 10628);
}

TEST_CASE("routing: what is no solution is refused") {
  const RoutingInstance three = three_customers();
  verify(three, {{1, 2}, {3}});
  CHECK(length(three, {{1, 2}, {3}}) == doctest::Approx(3 + 4 + 5 + 8));
  CHECK(message_of([&] { verify(three, {{1, 2, 3}}); }) == "[routing] route 1 carries 6, a vehicle only 4");
  CHECK(message_of([&] { verify(three, {{1, 2}}); }) == "[routing] node 3 is not visited");
  CHECK(message_of([&] { verify(three, {{1, 2}, {3, 1}}); }) == "[routing] node 1 is visited twice");
  CHECK(message_of([&] {
          verify(three, {{0, 1}, {2, 3}});
        }) == "[routing] got a visit to node 0, need 1 to 3");
  const RoutingInstance tsp = of_metric(Metric::exact, {{0, 0}, {0, 1}, {1, 1}});
  verify(tsp, {{2, 0, 1}});
  CHECK(message_of([&] { verify(tsp, {{0, 1}, {2}}); }) == "[routing] got 2 routes, a tour is one");
  CHECK(message_of([&] { verify(tsp, {{0, 1, 3}}); }) == "[routing] got a visit to node 3, need 0 to 2");
  CHECK(message_of([&] { verify(tsp, {{0, 1, -1}}); }) == "[routing] got a visit to node -1, need 0 to 2");
}

TEST_CASE("routing: local search beside exact solutions of small instances") {
  int64_t compared = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Random random(seed, 1);
    const RoutingInstance tsp = uniform_tsp(10, random);
    const double shortest = shortest_tour(tsp);
    const Routes nearest = nearest_neighbour(tsp), joined = savings(tsp),
                 found = local_search(tsp, 50, random);
    for (const Routes& routes : {nearest, joined, found}) {
      verify(tsp, routes);
      CHECK(length(tsp, routes) >= shortest - 1e-9);
    }
    CHECK(length(tsp, found) == doctest::Approx(shortest).epsilon(1e-9));

    RoutingInstance cvrp = uniform_cvrp(7, random);
    cvrp.capacity = 15;
    const double least = shortest_routes(cvrp);
    for (const Routes& routes : {nearest_neighbour(cvrp), savings(cvrp)}) {
      verify(cvrp, routes);
      CHECK(length(cvrp, routes) >= least - 1e-9);
    }
    const Routes labels = local_search(cvrp, 200, random);
    verify(cvrp, labels);
    CHECK(length(cvrp, labels) == doctest::Approx(least).epsilon(1e-9));
    ++compared;
  }
  CHECK(compared == 8);
}

TEST_CASE("routing: 2-opt and Or-opt leave no improving move") {
  for (const int64_t nodes : {3, 4, 5, 6, 7, 8, 40}) {
    CAPTURE(nodes);
    Random random(uint64_t(nodes), 2);
    const RoutingInstance tsp = uniform_tsp(nodes, random);
    Route tour(static_cast<size_t>(nodes));
    std::iota(tour.begin(), tour.end(), 0);
    two_opt_or_opt(DistanceMatrix(tsp), tour);
    verify(tsp, {tour});
    CHECK((nodes < 8 || locally_shortest(tsp, tour)));
  }
}

TEST_CASE("routing: coincident and huge coordinates end") {
  Random random(0, 3);
  for (const double scale : {0.0, 1e9}) {
    RoutingInstance tsp = uniform_tsp(60, random);
    for (Location& p : tsp.nodes) p = {p.x * scale, p.y * scale};
    verify(tsp, local_search(tsp, 20, random));
    RoutingInstance cvrp = uniform_cvrp(30, random);
    for (Location& p : cvrp.nodes) p = {p.x * scale, p.y * scale};
    verify(cvrp, local_search(cvrp, 20, random));
  }
}

TEST_CASE("routing: uniform instances") {
  Random random(5, 5);
  const RoutingInstance cvrp = uniform_cvrp(1000, random);
  CHECK(cvrp.size() == 1001);
  CHECK(cvrp.capacity == 250);
  CHECK(cvrp.demands[0] == 0);
  const std::set<int64_t> demands(cvrp.demands.begin() + 1, cvrp.demands.end());
  CHECK((*demands.begin() == 1 && *demands.rbegin() == 9 && demands.size() == 9));
  CHECK(usual_capacity(20) == 30);
  double x = 0;
  for (const Location& p : cvrp.nodes) x += p.x / 1001;
  CHECK(x == doctest::Approx(0.5).epsilon(0.1));
  CHECK(message_of([&] { uniform_tsp(2, random); }).find("got 2 nodes, need 3") != std::string::npos);
}

TEST_CASE("routing: TSPLIB files") {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& text) { return read_tsplib(written(folder.file("a.tsp"), text)); };
  const RoutingInstance tsp = read(
      "NAME : a\nTYPE: TSP\nCOMMENT : by hand\nDIMENSION:3\nEDGE_WEIGHT_TYPE : CEIL_2D\nNODE_COORD_SECTION\n"
      " 1 0 0\n3 2.5e0 -1\r\n 2 1 1\nEOF\n");
  CHECK(tsp.name == "a");
  CHECK(tsp.metric == Metric::ceil_2d);
  CHECK((tsp.nodes[2].x == 2.5 && tsp.nodes[2].y == -1 && tsp.nodes[1].x == 1));
  const std::string head = "TYPE : CVRP\nDIMENSION : 3\nEDGE_WEIGHT_TYPE : EUC_2D\nCAPACITY : 10\n",
                    nodes = "NODE_COORD_SECTION\n1 0 0\n2 1 0\n3 2 0\n",
                    demands = "DEMAND_SECTION\n1 4\n2 0\n3 5\n";
  const RoutingInstance cvrp = read(head + nodes + demands + "DEPOT_SECTION\n2\n-1\nEOF\n");
  CHECK(cvrp.capacity == 10);
  CHECK((cvrp.nodes[0].x == 1 && cvrp.nodes[1].x == 0 && cvrp.nodes[2].x == 2));
  CHECK(cvrp.demands == std::vector<int64_t>{0, 4, 5});

  int64_t refused = 0;
  const auto refuse = [&](const std::string& text, const std::string& why) {
    CAPTURE(text);
    const std::string message = message_of([&] { read(text); });
    CHECK(message.find(why) != std::string::npos);
    CHECK(message.find("a.tsp") != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
    ++refused;
  };
  const std::string tail = "DEPOT_SECTION\n2\n-1\nEOF\n";
  refuse("TYPE : ATSP\n", "need TSP or CVRP");
  refuse("EDGE_WEIGHT_TYPE : EXPLICIT\n", "need EUC_2D, CEIL_2D, ATT or GEO");
  refuse("EDGE_WEIGHT_TYPE : exact\n", "need EUC_2D");
  refuse("DIMENSION : 99999999\n", "in a file of 1 lines");
  refuse("DIMENSION : 2\nDIMENSION : 2\n", "a second DIMENSION");
  refuse("DISTANCE : 100\n", "'DISTANCE', which is not read here");
  refuse("NAME : a\n", "no NODE_COORD_SECTION");
  refuse(nodes, "DIMENSION must come before");
  refuse("DIMENSION : 3\n" + nodes, "no EDGE_WEIGHT_TYPE");
  refuse(head + "NODE_COORD_SECTION\n1 0 0\n2 1 0\n", "ends after 2 of 3 nodes");
  refuse(head + "NODE_COORD_SECTION\n1 0 0\n1 1 0\n3 1 1\n", "node 1 comes twice");
  refuse(head + "NODE_COORD_SECTION\n1 0 0\n4 1 0\n3 1 1\n", "got node 4, need 1 to 3");
  refuse(head + "NODE_COORD_SECTION\n1 0 0 0\n2 1 0\n3 1 1\n", "after the numbers of a node");
  refuse(head + "NODE_COORD_SECTION\n1 0\n2 1 0\n3 1 1\n", "where y is expected");
  refuse(head + "NODE_COORD_SECTION\n1 0 a\n2 1 0\n3 1 1\n", "got 'a' as y, need a number");
  refuse(head + "NODE_COORD_SECTION\n1 0 nan\n2 1 0\n3 1 1\n" + demands + tail, "not a number from -1e9");
  refuse(head + nodes + tail, "without DEMAND_SECTION");
  refuse(head + nodes + demands, "without DEPOT_SECTION");
  refuse(head + nodes + demands + "DEPOT_SECTION\n2\n1\n-1\n", "a second depot");
  refuse(head + nodes + demands + "DEPOT_SECTION\n1\n-1\n", "the depot has a demand");
  refuse(head + nodes + "DEMAND_SECTION\n1 4\n2 0\n3 11\n" + tail,
         "a demand of 11, need 0 to the capacity, 10");
  // The demands of 100,000 nodes fit 63 bits, but not with one more each.
  const auto of_capacity = [&](const std::string& capacity) {
    return "CAPACITY : " + capacity + "\n" + head.substr(0, head.find("CAPACITY")) + nodes + demands + tail;
  };
  CHECK(read(of_capacity("92233720368547")).capacity == 92233720368547);
  refuse(of_capacity("92233720368548"), "a capacity of 92233720368548, need at most 92233720368547");
  refuse("DIMENSION : 3\nEDGE_WEIGHT_TYPE : GEO\n" + nodes + demands, "its TYPE is not CVRP");
  CHECK(refused == 23);
}

TEST_CASE("routing: published files by hand") {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& text) {
    return read_published(written(folder.file("a.txt"), text));
  };
  const auto tsp = read("0 0 0 1 1 1 output 1 3 2 1\n0 0 0 2 2 2 1 3 output 1 2 4 3 1 \n");
  REQUIRE(tsp.size() == 2);
  CHECK(tsp[0].routes == Routes{{0, 2, 1}});
  CHECK(tsp[0].reference == doctest::Approx(2 + std::sqrt(2.0)));
  const auto cvrp =
      read("depot,0,0,customer,0,3,4,3,4,0,capacity,4,demand,2,2,2,cost,20,node_flag,1,2,3,1,0,1\n");
  CHECK(cvrp.at(0).routes == Routes{{1, 2}, {3}});
  CHECK(cvrp.at(0).reference == doctest::Approx(20));
  CHECK(cvrp.at(0).instance.demands == std::vector<int64_t>{0, 2, 2, 2});
  CHECK(read("['x', '7', '0', '0', '0', '2', '1', '1']\n").at(0).reference == 7);
  const auto library = read(
      "['name', 'y', 'depot', 0, 1, 'customer', 2, 3, 4.5, 5, 'demand', 0, 3, 4, 'capacity', 5, 'cost', 9, "
      "'end']");
  CHECK((library.at(0).instance.name == "y" && library.at(0).instance.nodes[2].x == 4.5));

  int64_t refused = 0;
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"", "no instances"},
           {"0 0 0 1 1 1 output 1 3 2\n", "does not end where it begins"},
           {"0 0 0 1 1 1 output 1 3 1\n", "node 1 is not visited"},
           {"0 0 0 1 1 1 output 1 3 0 1\n", "nodes count from 1"},
           {"0 0 0 1 1 1 output 1 3 9 1\n", "got a visit to node 8"},
           {"0 0 0 1 1\n", "where y is expected"},
           {"0 0 0 1 1 1\n", "where output is expected"},
           {"depot,0,0,customer,0,3,4,3,4,0,capacity,4,demand,2,2,2,cost,20,node_flag,1,2,3,1,0,0\n",
            "carries 6"},
           {"depot,0,0,customer,0,3,4,3,4,0,capacity,4,demand,2,2,2,cost,21,node_flag,1,2,3,1,0,1\n",
            "the file says"},
           {"depot,0,0,customer,0,3,4,3,4,0,capacity,4,demand,2,2,2,cost,20,node_flag,1,2,3,0,0,1\n",
            "not reached from the depot"},
           {"depot,0,0,customer,0,3,4,3,4,0,capacity,4,demand,2,2,2,cost,20,node_flag,1,2,3,1,0,2\n",
            "need 0 or 1"},
           {"depot,0,0,customer,0,3,4,3,4,0,capacity,4,demand,2,2,cost,20,node_flag,1,2,3,1,0,1\n",
            "2 demands"},
           {"['x', 'inf', '0', '0', '0', '2', '1', '1']\n", "not a positive number"},
           {"['name', 'y', 'depot', 0, 1, 'end']\n", "need 'customer'"}}) {
    const std::string& input = text;  // clang 14 captures no structured binding
    CAPTURE(input);
    const std::string message = message_of([&] { read(input); });
    CHECK(message.find(why) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
    ++refused;
  }
  CHECK(refused == 14);
}

DATA_TEST_CASE("routing: the published files", "tsp") {
  const auto mean = [](const std::vector<SolvedInstance>& all) {
    double sum = 0;
    for (const SolvedInstance& s : all) sum += s.reference;
    return sum / double(all.size());
  };
  // Means that LEHD's authors measured; solutions and costs are verified by the reader.
  const auto read = [](const std::string& name) { return read_published(shared_data("tsp/" + name)); };
  for (const auto& [name, reference] :
       {std::pair{"test_TSP200_n128.txt", 10.703612}, std::pair{"test_TSP500_n128.txt", 16.521472},
        std::pair{"vrp200_test_lkh.txt", 20.172636}, std::pair{"vrp500_test_lkh.txt", 37.229186}}) {
    const auto all = read(name);
    CHECK(all.size() == 128);
    CHECK(mean(all) == doctest::Approx(reference).epsilon(1e-7));
    for (const SolvedInstance& s : all) {
      REQUIRE(!s.routes.empty());
      if (s.instance.has_depot()) continue;
      Route tour = s.routes[0];  // optimal: no 2-opt or Or-opt move shortens it
      two_opt_or_opt(DistanceMatrix(s.instance), tour);
      CHECK(length(s.instance, {tour}) == doctest::Approx(s.reference).epsilon(1e-9));
    }
  }
  // Nearest neighbour from node 0.
  const auto tsp200 = read("test_TSP200_n128.txt");
  double nearest = 0;
  for (const SolvedInstance& s : tsp200) nearest += length(s.instance, nearest_neighbour(s.instance)) / 128;
  CHECK(nearest == doctest::Approx(13.3760).epsilon(1e-5));
  // TSPLIB: 70 instances; that its documentation gives the length of the tour 1, 2, ... for.
  const auto tsplib = read("TSPlib_70instances.txt");
  CHECK(tsplib.size() == 70);
  int64_t compared = 0;
  for (const SolvedInstance& s : tsplib) {
    if (s.instance.name == "pcb442") {
      Route tour(442);
      std::iota(tour.begin(), tour.end(), 0);
      CHECK(length(s.instance, {tour}) == 221440);
      ++compared;
    }
    if (s.instance.name != "kroA100") continue;
    const RoutingInstance file = read_tsplib(shared_data("tsp/tsplib/kroA100.tsp"));
    CHECK(file.metric == s.instance.metric);
    REQUIRE(file.size() == s.instance.size());
    for (size_t i = 0; i < file.nodes.size(); ++i)
      CHECK((file.nodes[i].x == s.instance.nodes[i].x && file.nodes[i].y == s.instance.nodes[i].y));
    Random random(0, 0);
    CHECK(length(file, local_search(file, 3000, random)) == doctest::Approx(21282).epsilon(0.01));
    ++compared;
  }
  CHECK(compared == 2);
  const auto cvrplib = read("vrplib_192instances.txt");
  CHECK(cvrplib.size() == 192);
  int64_t shorter = 0;
  for (const SolvedInstance& s : cvrplib)
    if (s.instance.size() <= 200) {
      const Routes routes = savings(s.instance);
      verify(s.instance, routes);
      // Some costs are for a number of vehicles, of which savings may take more.
      CHECK(length(s.instance, routes) >= 0.97 * s.reference);
      shorter += length(s.instance, routes) < s.reference;
    }
  CHECK(shorter <= 3);
}

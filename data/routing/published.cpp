#include "data/routing/published.h"

#include <cmath>

#include "data/files.h"
#include "data/routing/words.h"

namespace pursuit::data {

namespace {

Location point(Words& words) {
  const double x = words.number("x");
  return {x, words.number("y")};
}

std::vector<Location> points_until(Words& words, std::string_view end) {
  std::vector<Location> points;
  while (words.peek() != end && !words.done()) points.push_back(point(words));
  return points;
}

// Ids from 1 as nodes from `first`.
int64_t node(Words& words, int64_t first) {
  const int64_t id = words.integer("a node");
  if (id < 1) words.reject("got node " + std::to_string(id) + ", nodes count from 1");
  return id - 1 + first;
}

SolvedInstance tsp(Words words) {
  SolvedInstance solved;
  solved.instance.nodes = points_until(words, "output");
  words.expect("output");
  Route tour;
  while (!words.done()) tour.push_back(node(words, 0));
  if (tour.size() < 2 || tour.front() != tour.back()) words.reject("the tour does not end where it begins");
  tour.pop_back();
  solved.routes = {tour};
  return solved;
}

// From the word "depot" to the word before "capacity" or "demand".
void depot_and_customers(Words& words, std::string_view end, RoutingInstance& instance) {
  words.expect("depot");
  instance.nodes = {point(words)};
  words.expect("customer");
  for (const Location& customer : points_until(words, end)) instance.nodes.push_back(customer);
}

SolvedInstance cvrp(Words words) {
  SolvedInstance solved;
  RoutingInstance& instance = solved.instance;
  depot_and_customers(words, "capacity", instance);
  words.expect("capacity");
  instance.capacity = words.integer("the capacity");
  words.expect("demand");
  while (words.peek() != "cost" && !words.done()) instance.demands.push_back(words.integer("a demand"));
  if (instance.demands.size() + 1 == instance.nodes.size())  // without the depot's
    instance.demands.insert(instance.demands.begin(), 0);
  words.expect("cost");
  solved.reference = words.number("the cost");
  words.expect("node_flag");
  Route order;
  for (size_t i = 1; i < instance.nodes.size(); ++i) order.push_back(node(words, 1));
  for (const int64_t customer : order) {
    const int64_t flag = words.integer("a flag");
    if (flag != 0 && flag != 1) words.reject("got flag " + std::to_string(flag) + ", need 0 or 1");
    if (flag == 1) solved.routes.emplace_back();
    if (solved.routes.empty()) words.reject("the first customer is not reached from the depot");
    solved.routes.back().push_back(customer);
  }
  if (!words.done()) words.reject("got " + Words::quoted(words.peek()) + " after the last flag");
  return solved;
}

SolvedInstance tsplib(Words words) {
  SolvedInstance solved;
  solved.instance.metric = Metric::euc_2d;
  solved.instance.name = std::string(words.word("the name"));
  solved.reference = words.number("the length");
  while (!words.done()) solved.instance.nodes.push_back(point(words));
  return solved;
}

SolvedInstance cvrplib(Words words) {
  SolvedInstance solved;
  RoutingInstance& instance = solved.instance;
  instance.metric = Metric::euc_2d;
  words.expect("name");
  instance.name = std::string(words.word("the name"));
  depot_and_customers(words, "demand", instance);
  words.expect("demand");
  while (words.peek() != "capacity" && !words.done()) instance.demands.push_back(words.integer("a demand"));
  words.expect("capacity");
  instance.capacity = words.integer("the capacity");
  words.expect("cost");
  solved.reference = words.number("the cost");
  words.expect("end");
  return solved;
}

SolvedInstance read_line(const std::string& line, const std::string& place) {
  constexpr const char *list = "[]', ", *commas = ", ";
  if (line.starts_with("depot,")) return cvrp(Words(line, commas, place));
  if (line.starts_with("['name'")) return cvrplib(Words(line, list, place));
  if (line.starts_with("[")) return tsplib(Words(line, list, place));
  return tsp(Words(line, " \t", place));
}

}  // namespace

std::vector<SolvedInstance> read_published(const std::string& path) {
  std::vector<SolvedInstance> all;
  for (const std::string& line : read_lines(path)) {
    const std::string place = path + " instance " + std::to_string(all.size() + 1);
    SolvedInstance solved = read_line(line, place);
    check(solved.instance, place);
    if (!(solved.reference >= 0 && std::isfinite(solved.reference)))
      fail("routing", place + ": the length is not a positive number");
    if (!solved.routes.empty()) {
      try {
        verify(solved.instance, solved.routes);
      } catch (const Error& e) {
        fail("routing", place + ": its solution is wrong: " + e.what());
      }
      const double measured = length(solved.instance, solved.routes);
      if (solved.reference > 0 && std::abs(measured - solved.reference) > 1e-9 * measured)
        fail("routing", place + ": the solution has the length " + std::to_string(measured) +
                            ", the file says " + std::to_string(solved.reference));
      solved.reference = measured;
    }
    all.push_back(std::move(solved));
  }
  if (all.empty()) fail("routing", path + " has no instances");
  return all;
}

}  // namespace pursuit::data

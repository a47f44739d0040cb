#include "data/routing/tsplib.h"

#include <algorithm>

#include "data/files.h"
#include "data/routing/words.h"

namespace pursuit::data {

namespace {

constexpr const char* kSpace = " \t:";

// A file's lines, with the sections' numbers read by node.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), lines_(read_lines(path)) {}

  RoutingInstance read() {
    while (at_ < lines_.size() && entry()) {
    }
    if (nodes_.empty()) reject("there is no NODE_COORD_SECTION");
    if (!has_metric_) reject("there is no EDGE_WEIGHT_TYPE");
    instance_.nodes = nodes_;
    if (type_ == "CVRP")
      place_depot();
    else if (instance_.capacity != 0 || !instance_.demands.empty())
      reject("it has a capacity or demands, but its TYPE is not CVRP");
    check(instance_, path_);
    return instance_;
  }

 private:
  [[noreturn]] void reject(const std::string& what) const { fail("routing", path_ + ": " + what); }
  Words line() {
    const std::string place = path_ + " line " + std::to_string(at_ + 1);
    return Words(lines_[at_++], kSpace, place);
  }

  // One line of the specification, or a section; false at the end.
  bool entry() {
    Words words = line();
    if (words.done()) return true;
    const std::string key(words.word("a keyword"));
    if (key == "EOF") return false;
    if (key == "NAME")
      instance_.name = words.done() ? "" : printable(words.word("the name"));
    else if (key == "TYPE")
      read_type(words);
    else if (key == "DIMENSION")
      read_dimension(words);
    else if (key == "CAPACITY")
      instance_.capacity = words.integer("the capacity");
    else if (key == "EDGE_WEIGHT_TYPE")
      read_metric(words);
    else if (key == "NODE_COORD_SECTION")
      read_coordinates();
    else if (key == "DEMAND_SECTION")
      read_demands();
    else if (key == "DEPOT_SECTION")
      read_depots();
    else if (key != "COMMENT" && key != "NODE_COORD_TYPE" && key != "DISPLAY_DATA_TYPE" &&
             key != "EDGE_WEIGHT_FORMAT" && key != "VEHICLES")
      words.reject("got " + Words::quoted(key) +
                   ", which is not read here; remove the line if it may be ignored");
    return true;
  }

  void read_type(Words& words) {
    type_ = std::string(words.word("the type"));
    if (type_ != "TSP" && type_ != "CVRP")
      words.reject("got type " + Words::quoted(type_) + ", need TSP or CVRP");
  }
  void read_dimension(Words& words) {
    if (dimension_ != 0) words.reject("a second DIMENSION");
    dimension_ = words.integer("the dimension");
    if (dimension_ < 1 || size_t(dimension_) > lines_.size())
      words.reject("got dimension " + std::to_string(dimension_) + " in a file of " +
                   std::to_string(lines_.size()) + " lines");
  }
  void read_metric(Words& words) {
    const std::string name(words.word("the weights' type"));
    const auto metric = find_choice<Metric>(name);
    if (!metric || *metric == Metric::exact)
      words.reject("got weights of type " + Words::quoted(name) + ", need EUC_2D, CEIL_2D, ATT or GEO");
    instance_.metric = *metric;
    has_metric_ = true;
  }

  // The index of the node that a line of a section begins with; each must come once.
  size_t node(Words& words, std::vector<char>& seen) const {
    const int64_t id = words.integer("a node");
    if (id < 1 || id > dimension_)
      words.reject("got node " + std::to_string(id) + ", need 1 to " + std::to_string(dimension_));
    if (seen[size_t(id - 1)]++) words.reject("node " + std::to_string(id) + " comes twice");
    return size_t(id - 1);
  }
  template <class F> void section(const char* name, const F& of_node) {
    if (dimension_ == 0) reject(std::string("DIMENSION must come before ") + name);
    std::vector<char> seen(static_cast<size_t>(dimension_));
    for (int64_t i = 0; i < dimension_; ++i) {
      if (at_ == lines_.size())
        reject(std::string(name) + " ends after " + std::to_string(i) + " of " + std::to_string(dimension_) +
               " nodes");
      Words words = line();
      const size_t n = node(words, seen);
      of_node(n, words);
      if (!words.done()) words.reject("got " + Words::quoted(words.peek()) + " after the numbers of a node");
    }
  }
  void read_coordinates() {
    std::vector<Location> points(static_cast<size_t>(dimension_));
    section("NODE_COORD_SECTION", [&](size_t n, Words& words) {
      const double x = words.number("x");
      points[n] = {x, words.number("y")};
    });
    nodes_ = std::move(points);
  }
  void read_demands() {
    std::vector<int64_t> demands(static_cast<size_t>(dimension_));
    section("DEMAND_SECTION", [&](size_t n, Words& words) { demands[n] = words.integer("a demand"); });
    instance_.demands = std::move(demands);
  }
  void read_depots() {
    while (at_ < lines_.size()) {
      Words words = line();
      if (words.done()) continue;
      const int64_t id = words.integer("a depot");
      if (id == -1) return;
      if (depot_ != 0) words.reject("got a second depot, need one");
      if (id < 1 || id > dimension_)
        words.reject("got depot " + std::to_string(id) + ", need 1 to " + std::to_string(dimension_));
      depot_ = id;
    }
  }
  void place_depot() {
    if (instance_.demands.empty()) reject("a CVRP without DEMAND_SECTION");
    if (depot_ == 0) reject("a CVRP without DEPOT_SECTION");
    if (instance_.capacity < 1) reject("a CVRP without CAPACITY, or with one below 1");
    const auto first = [&](auto& v) { std::rotate(v.begin(), v.begin() + depot_ - 1, v.begin() + depot_); };
    first(instance_.nodes);
    first(instance_.demands);
  }

  std::string path_, type_ = "TSP";
  std::vector<std::string> lines_;
  size_t at_ = 0;
  int64_t dimension_ = 0, depot_ = 0;
  bool has_metric_ = false;
  std::vector<Location> nodes_;
  RoutingInstance instance_;
};

}  // namespace

RoutingInstance read_tsplib(const std::string& path) { return Reader(path).read(); }

}  // namespace pursuit::data

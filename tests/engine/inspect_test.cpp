#include <doctest/doctest.h>
#include <stdlib.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/cpu/parallel.h"
#include "engine/inspect/tape_graph.h"
#include "engine/inspect/trace.h"
#include "engine/ops.h"
#include "nn/init.h"
#include "nn/transformer_lm.h"
#include "nn/vit.h"
#include "tests/needs.h"
#include "tests/temporary_folder.h"

using namespace pursuit;

namespace {

int64_t held(const std::vector<TapeNode>& nodes) {
  int64_t sum = 0;
  for (const TapeNode& n : nodes) sum += n.bytes;
  return sum;
}

// Compares the pool memory of the forward pass of `loss` with the bytes that the nodes report.
template <class F> void check_bytes(const F& loss) {
  const int threads = num_threads();
  set_num_threads(1);
  { loss().backward(); }  // allocates the thread's scratch memory
  const int64_t before = memory_stats().allocated;
  const TapeRecorder recorder;
  const Tensor y = loss();
  const int64_t taken = memory_stats().allocated - before;
  const std::vector<TapeNode> nodes = tape_of(y);
  REQUIRE(taken > 100000);
  CHECK(double(held(nodes)) == doctest::Approx(double(taken)).epsilon(0.01));
  for (const TapeNode& n : nodes) {
    CHECK((n.leaf || !n.result.empty()));
    CHECK((n.leaf || n.milliseconds >= 0));
  }
  set_num_threads(threads);
}

}  // namespace

POOL_TEST_CASE("tape: the bytes of its nodes are what the forward pass takes of the pool") {
  for (const char* kind : {"softmax", "rpc"}) {
    CAPTURE(kind);
    nn::VitConfig c;
    c.image = 32, c.patch = 4, c.dim = 48, c.depth = 3, c.heads = 3, c.classes = 10;
    c.attention.kind = kind;
    nn::VisionTransformer vit(c);
    nn::initialise(vit, nn::Init::timm, 0);
    vit.set_training(true);
    const Tensor images = normal({4, 3, 32, 32}, 0, 1, 0, 1),
                 labels = from_vector(std::vector<int32_t>{1, 2, 3, 4}, {4});
    // With images computed in the forward pass, but not on the tape.
    check_bytes([&] { return cross_entropy(vit(images * 0.5), labels); });

    nn::LmConfig l;
    l.vocab = 50, l.context = 32, l.dim = 48, l.depth = 2, l.heads = 3, l.hidden = 96;
    l.attention.kind = kind;
    nn::TransformerLm lm(l);
    nn::initialise(lm, nn::Init::timm, 0);
    lm.set_training(true);
    const Tensor ids = zeros({8, 32}, DType::i32);
    check_bytes([&] { return lm.loss(ids, ids); });
  }
}

TEST_CASE("tape: nodes, shapes and inputs; what nobody keeps counts nothing") {
  Tensor w = normal({64, 64}, 0, 1, 0, 1);
  w.requires_grad();
  const TapeRecorder recorder;
  const Tensor y = (exp(w) + w).sum();  // exp keeps its result; + keeps nothing, and its result goes
  const std::vector<TapeNode> nodes = tape_of(y, {{"weight", w}});
  REQUIRE(nodes.size() == 4);
  CHECK((nodes[0].leaf && nodes[0].name == "weight" && nodes[0].result == "f32[64, 64]"));
  CHECK((nodes[1].name == "exp" && nodes[1].result == "f32[64, 64]" &&
         nodes[1].inputs == std::vector<size_t>{0}));
  CHECK((nodes[2].name == "add" && nodes[2].inputs == std::vector<size_t>{1, 0}));
  CHECK((nodes[3].name == "sum" && nodes[3].result == "f32[]"));
  if (allocator() == "pool") {
    CHECK(nodes[1].bytes == 64 * 64 * 4);
    CHECK(nodes[2].bytes == 0);
  }
  const std::string dot = tape_to_dot(y, {{"the \"weight\"", w}});
  for (const char* part : {"digraph tape {", "label=\"exp\\nf32[64, 64]\\nthe \\\"weight\\\" f32[64, 64]",
                           "n1 -> n2;", "4 nodes"})
    CHECK_MESSAGE(dot.find(part) != std::string::npos, part, " in\n", dot);
  CHECK_THROWS_WITH_AS(tape_to_dot(w.detach()), doctest::Contains("not on the tape"), Error);
}

TEST_CASE("trace: spans nest, the file is JSON, memory is a counter") {
  const TemporaryFolder folder;
  const std::string file = folder.path / "trace.json";
  setenv("PURSUIT_TRACE", (folder.path / "none" / "trace.json").c_str(), 1);
  CHECK_THROWS_WITH_AS(start_trace(), doctest::Contains("trace.json"), Error);
  setenv("PURSUIT_TRACE", file.c_str(), 1);
  start_trace();
  unsetenv("PURSUIT_TRACE");
  {
    const TraceSpan span("step");
    Tensor w = normal({3, 5}, 0, 1, 0, 1);
    w.requires_grad();
    exp(w).sum().backward();
  }
  finish_trace();
  exp(ones({3}));  // no observer any more
  finish_trace();  // and nothing is written twice
  const auto json = nlohmann::json::parse(std::ifstream(file));
  CHECK(json["otherData"]["dropped"] == 0);
  std::map<std::string, std::pair<double, double>> spans;
  int counters = 0;
  for (const auto& event : json["traceEvents"]) {
    if (event["ph"] == "X")
      spans[event["name"].get<std::string>() + (event["cat"] == "backward" ? "'" : "")] = {
          event["ts"], event["ts"].get<double>() + event["dur"].get<double>()};
    if (event["name"] == "exp" && event["cat"] == "forward") CHECK(event["args"]["result"] == "f32[3, 5]");
    if (event["ph"] != "C") continue;
    ++counters;
    CHECK(event["args"]["bytes"].get<int64_t>() >= 60);
  }
  CHECK(counters >= 2);
  for (const char* name : {"exp", "sum", "exp'", "sum'"}) {
    REQUIRE_MESSAGE(spans.contains(name), name);
    CHECK(spans[name].first >= spans["step"].first);
    CHECK(spans[name].second <= spans["step"].second + 0.001);
  }
  CHECK(spans["exp"].second <= spans["sum"].first + 0.001);
  CHECK(spans["sum'"].second <= spans["exp'"].first + 0.001);
}

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "apps/bench/measured_times.h"
#include "apps/bench/models.h"
#include "apps/bench/published.h"
#include "apps/bench/timeline.h"
#include "apps/run/files.h"
#include "engine/base/error.h"
#include "tests/message_of.h"
#include "tests/needs.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using namespace pursuit::bench;

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// Three layers, 1, 2 and 3 ms; the last holds half of the parameters.
StepTimes three_layers() { return {2, 6, 1, {{"c", 10, 1}, {"b", 10, 3}, {"a", 20, 6}}}; }

Published setting(const std::string& name) {
  for (const Published& p : published())
    if (p.workload.name == name) return p;
  FAIL(name);
  return {};
}

nn::VitConfig small_vit() {
  nn::VitConfig c;
  c.image = 16;
  c.patch = 4;
  c.dim = 24;
  c.depth = 3;
  c.classes = 7;
  return c;
}

}  // namespace

TEST_CASE("ddp: collectives take what the ring's formulas say") {
  // 2 (p - 1) latency + 2 (p - 1) / p S / bandwidth: 14 x 2 us and 7/4 x 37 MB at 370 GB/s.
  CHECK(Network{}.all_reduce_ms(37e6) == doctest::Approx(0.028 + 0.175));
  CHECK(Network{.ranks = 2}.all_reduce_ms(37e6) == doctest::Approx(0.004 + 0.1));
  // Each gives 37 MB and passes on seven such parts.
  CHECK(Network{}.all_gather_ms(37e6) == doctest::Approx(0.014 + 0.7));
  // An eighth of it goes to the other node and comes back: 2 x 10 us and 37/8 MB at 46 GB/s.
  const Network two{.ranks = 16, .nodes = 2};
  CHECK(two.all_reduce_ms(37e6) == doctest::Approx(0.203 + 0.02 + 37.0 / 8 / 46));
  // First 37 MB to the other node, then two such parts round the own one.
  CHECK(two.all_gather_ms(37e6) == doctest::Approx(0.01 + 37.0 / 46 + 0.014 + 1.4));
  CHECK(Network{.ranks = 1}.all_reduce_ms(37e6) == 0);
}

TEST_CASE("ddp: two slices of three layers") {
  const auto two = slices(three_layers().gradients, 2);
  REQUIRE(two.size() == 2);
  CHECK(two[0].elements == 20);
  CHECK(two[0].ready == 3);
  CHECK(two[1].elements == 20);
  CHECK(two[1].ready == 6);

  // Short collectives: the first is hidden behind the last layer.
  Replay r = replay(6, {{3, 2}, {6, 2}}, 0);
  CHECK(r.collectives[0].begin == 3);
  CHECK(r.collectives[0].end == 5);
  CHECK(r.collectives[1].begin == 6);
  CHECK(r.backward == 6);
  CHECK(r.end == 8);

  // Long ones: the second waits for the first.
  r = replay(6, {{3, 5}, {6, 5}}, 0);
  CHECK(r.collectives[1].begin == 8);
  CHECK(r.end == 13);

  // During the first reduction the last layer runs at half speed: 1 of its 3 ms is done when that ends, at 5.
  r = replay(6, {{3, 2}, {6, 2}}, 0.5);
  CHECK(r.backward == 7);
  CHECK(r.collectives[1].begin == 7);
  CHECK(r.end == 9);

  // One that runs on until after backward slows all of it: 3 ms become 6, from 3 to 9.
  r = replay(6, {{3, 10}}, 0.5);
  CHECK(r.backward == 9);
  CHECK(r.end == 13);
}

TEST_CASE("ddp: slices cover the buffer, and a border may lie within a gradient") {
  for (int count : {1, 3, 4, 7}) {
    const auto parts = slices(three_layers().gradients, count);
    REQUIRE(parts.size() == size_t(count));
    int64_t sum = 0;
    for (const Slice& s : parts) sum += s.elements;
    CHECK(sum == 40);
    CHECK(parts.back().ready == 6);
  }
  const auto four = slices(three_layers().gradients, 4);
  CHECK(four[0].ready == 1);
  CHECK(four[1].ready == 3);
  CHECK(four[2].ready == 6);
  CHECK(slices({{"scalar", 1, 2}}, 3).size() == 1);  // none is empty
}

TEST_CASE("ddp: limits") {
  const StepTimes step = three_layers();
  // One slice is ready when backward has ended: all of it is exposed, whatever the contention.
  const Network slow{.ranks = 2, .bandwidth = 1e-4, .latency = 0};  // 1.6 ms for 160 bytes
  for (double contention : {0.0, 0.5}) {
    const Exposure e = expose(step, {.slices = 1, .contention = contention}, slow);
    CHECK(e.bytes == 160);
    CHECK(e.collectives_ms == doctest::Approx(1.6));
    CHECK(e.exposed_ms == doctest::Approx(1.6));
  }
  // Two slices: half of that. bf16: half the bytes.
  CHECK(expose(step, {.slices = 2, .contention = 0}, slow).exposed_ms == doctest::Approx(0.8));
  CHECK(expose(step, {.slices = 2, .bytes = 2, .contention = 0}, slow).exposed_ms == doctest::Approx(0.4));
  // A network without limits, and one GPU.
  const Network perfect{.bandwidth = infinite, .latency = 0};
  for (int count : {1, 2, 5}) CHECK(expose(step, {.slices = count}, perfect).exposed_ms == 0);
  CHECK(expose(step, {}, {.ranks = 1}).exposed_ms == 0);
  // Latency counts once a slice.
  const Network far{.ranks = 2, .bandwidth = infinite, .latency = 500};
  CHECK(expose(step, {.slices = 1, .contention = 0}, far).exposed_ms == doctest::Approx(1));
  CHECK(expose(step, {.slices = 4, .contention = 0}, far).exposed_ms ==
        doctest::Approx(2));  // two are ready at 6
}

TEST_CASE("ddp: the rows of a tied embedding") {
  // The output layer is done after 1 ms; `embed`, half of everything, only at the end.
  const StepTimes step{2, 6, 1, {{"output", 10, 1}, {"block", 10, 3}, {"embed", 20, 6}}};
  const Network slow{.ranks = 2, .bandwidth = 1e-4, .latency = 0};
  const Exchange rows{.slices = 2, .contention = 0, .tied = "embed", .rows = 2, .width = 3};
  const Exposure e = expose(step, rows, slow);
  // The output layer's part of it goes first, from 1 ms to 1.8, then the two slices of the others, from 1.8
  // and from 3 ms: all hidden. At the end two rows of three numbers and an index: 32 bytes to the other rank.
  CHECK(e.bytes == 160 + 32);
  CHECK(e.collectives_ms == doctest::Approx(1.6 + 0.32));
  CHECK(e.exposed_ms == doctest::Approx(0.32));
  // Many rows: those of the other rank are read, added and written, 12 bytes a number.
  Exchange many = rows;
  many.rows = 1000000;
  many.width = 100;
  CHECK(expose(step, many, {.ranks = 2, .bandwidth = infinite, .latency = 0}).exposed_ms ==
        doctest::Approx(1e8 * 12 / hbm_bandwidth * 1e3));
  many.tied = "other";
  CHECK(message_of([&] { expose(step, many, slow); }).find("tied embedding") != std::string::npos);
}

TEST_CASE("ddp: an estimated step is the planned one, divided over the model's own parameters") {
  for (const Published& p : published()) {
    INFO(p.workload.name);
    for (const auto& [kernels, step] : p.estimates) {
      double planned = 0;
      for (double ms : {15.5, 8.0, 6.0, 2.5})
        if (std::abs(step.total() - ms) < 1e-9) planned = ms;
      CHECK(planned > 0);
      CHECK(step.backward > 1.9 * step.forward);
      CHECK(step.backward < 2.6 * step.forward);
      CHECK(step.gradients.back().ready == doctest::Approx(step.backward));
      CHECK(std::is_sorted(step.gradients.begin(), step.gradients.end(),
                           [](const auto& a, const auto& b) { return a.ready < b.ready; }));
      for (const auto& g : step.gradients) CHECK(g.ready > 0);
    }
  }
  int64_t deit = 0;
  const Published softmax = setting("deit-tiny-softmax");
  for (const auto& g : softmax.estimates.begin()->second.gradients) deit += g.elements;
  CHECK(deit == 5717416);
  int64_t lm = 0, tied = 0;
  const Published language = setting("lm-wikitext103");
  for (const auto& g : language.estimates.begin()->second.gradients) {
    lm += g.elements;
    if (g.name == language.tied) tied = g.elements;
  }
  CHECK(tied == 267735 * 128);
  CHECK(double(tied) / double(lm) == doctest::Approx(0.78).epsilon(0.01));
}

TEST_CASE("ddp: iterations make their block longer") {
  const auto share_of_block_0 = [](const char* name) {
    double block_0 = 0, after = 0;
    const StepTimes step = setting(name).estimates.at("kernels as planned");
    for (const auto& g : step.gradients) {
      if (g.name == "blocks.0.norm1.weight") block_0 = g.ready;
      if (g.name == "blocks.1.norm1.weight") after = g.ready;
    }
    return (block_0 - after) / step.backward;
  };
  CHECK(share_of_block_0("deit-tiny-rpc") > 1.1 * share_of_block_0("deit-tiny-softmax"));
}

namespace {

void check_order_of_arrival(DType dtype, Device device) {
  nn::SegmenterConfig segmenter;
  segmenter.encoder = small_vit();
  segmenter.decoder = nn::SegmenterDecoder::linear;
  nn::LmConfig lm;
  lm.vocab = 50;
  lm.context = 8;
  lm.dim = 16;
  lm.depth = 2;
  lm.heads = 2;
  lm.hidden = 32;
  lm.cutoffs = {20};
  lm.output_bias = true;
  const nn::VitConfig rpc = with_attention(small_vit(), "rpc", {{"iterations", 2}});
  for (const Workload& w : {training("vit", "", 2, small_vit()), training("rpc", "", 2, rpc),
                            segmentation("segmenter", "", 2, segmenter), language("lm", "", 2, lm)}) {
    INFO(w.name);
    const StepTimes step = w.make(2, dtype, device).model->profile();
    const auto model = w.model();
    const auto parameters = model->parameters();
    REQUIRE(step.gradients.size() == parameters.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto& g = step.gradients[i];
      CHECK(g.name == parameters[parameters.size() - 1 - i].name);
      CHECK(g.elements == parameters[parameters.size() - 1 - i].tensor->numel());
      CHECK(g.ready > 0);
      CHECK(g.ready <= step.backward);
    }
    // Gradients of one layer may come in any order. Class token and positions are added to the projected
    // patches, so their gradients come before the projection's, although the model registers them first.
    double layer_before = 0, before = 0;
    std::string layer;
    for (const auto& g : step.gradients) {
      const std::string of = g.name.substr(0, g.name.rfind('.'));
      if (g.name.ends_with("cls_token") || g.name.ends_with("pos_embed")) continue;
      if (of != layer) layer_before = before, layer = of;
      CHECK_MESSAGE(g.ready >= layer_before, g.name);
      before = std::max(before, g.ready);
    }
    CHECK(step.forward > 0);
    CHECK(step.update > 0);
  }
}

}  // namespace

// The simulation assumes this order.
TEST_CASE("ddp: gradients arrive from the last parameter to the first") {
  check_order_of_arrival(DType::f32, cpu);
  check_order_of_arrival(DType::bf16, cpu);
}

GPU_TEST_CASE("ddp: so they do on a GPU") {
  check_order_of_arrival(DType::f32, cuda_device());
  check_order_of_arrival(DType::bf16, cuda_device());
}

TEST_CASE("ddp: measured times of a step") {
  const TemporaryFolder folder;
  const std::string file = folder.file("times.json");
  MeasuredTimes times{"a CPU", {}};
  const Device device = cuda::available() ? cuda_device() : cpu;
  times.steps["vit"] = measure_times(training("vit", "", 2, small_vit()), DType::f32, device);
  write_times(times, file);
  const MeasuredTimes read = read_times(file);
  CHECK(read.device == "a CPU");
  const StepTimes &a = times.steps.at("vit"), &b = read.steps.at("vit");
  CHECK(a.total() > 0);
  CHECK(a.total() == b.total());
  REQUIRE(a.gradients.size() == b.gradients.size());
  CHECK(a.gradients[5].name == b.gradients[5].name);
  CHECK(a.gradients[5].elements == b.gradients[5].elements);
  CHECK(a.gradients[5].ready == b.gradients[5].ready);

  const std::string good = apps::read_file(file);
  const auto refused = [&](const std::string& text, const std::string& why) {
    apps::write_file_atomically(file, text);
    const std::string said = message_of([&] { read_times(file); });
    CHECK_MESSAGE(said.find(file) != std::string::npos, said);
    CHECK_MESSAGE(said.find(why) != std::string::npos, said);
  };
  refused("{", "no times");
  refused("[]", "no times");
  refused(R"({"device": "x", "steps": {"vit": {"forward_ms": 1}}})", "no times");
  refused(good.substr(0, good.size() / 2), "no times");
  const std::string step =
      R"({"device": "x", "steps": {"vit": {"forward_ms": 1, "update_ms": 1, "backward_ms": )";
  refused(step + R"(-1, "gradients": []}}})", "backward_ms");
  refused(step + R"(0, "gradients": []}}})", "without a backward pass");
  refused(step + R"(1, "gradients": [{"parameter": "p", "elements": 1, "ready_ms": 2}]}}})",
          "after the backward");
  refused(step + R"(1, "gradients": [{"parameter": "p", "elements": -1, "ready_ms": 1}]}}})", "elements");
  CHECK(message_of([&] { read_times(folder.file("none")); }).find("none") != std::string::npos);
}

#include "engine/base/streams.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "data/shuffle.h"
#include "engine/base/random.h"
#include "nn/generator.h"
#include "nn/init.h"
#include "nn/vit.h"

using namespace pursuit;

TEST_CASE("streams: no two draws of a step share a stream, and none is the initial weights'") {
  for (const uint64_t step : {uint64_t(0), uint64_t(1), uint64_t(500000)}) {
    nn::Generator generator;
    generator.set_step(3, step, 0, cpu);
    const uint64_t counted = uint64_t(generator.counter.data<int64_t>()[0]);
    std::vector<uint64_t> drawn;
    for (const streams::Range& kind : streams::step::all) {
      if (kind.size() == 1) {
        drawn.push_back(counted + generator.of(kind));
        continue;
      }
      // Streams of branches: all of the encoder's half and of the decoder's half.
      REQUIRE(kind.size() == 2 * streams::step::decoder);
      for (const nn::Generator& part : {generator, generator.ahead(streams::step::decoder)})
        for (uint64_t branch = 0; branch < streams::step::decoder; ++branch)
          drawn.push_back(counted + part.of(kind, branch));
    }
    std::sort(drawn.begin(), drawn.end());
    CHECK(drawn.front() >= streams::noise.at(step * streams::step::count));
    CHECK(drawn.back() < streams::noise.at((step + 1) * streams::step::count));
    CHECK(std::adjacent_find(drawn.begin(), drawn.end()) == drawn.end());
  }
}

TEST_CASE("streams: initial weights and the order of data are those of before there was a map") {
  nn::VitConfig config;
  config.image = 8, config.patch = 4, config.dim = 8, config.depth = 1, config.heads = 2, config.classes = 2;
  nn::VisionTransformer model(config);
  nn::initialise(model, nn::Init::timm, 7);
  uint64_t stream = 0;
  int compared = 0;
  for (const nn::NamedTensor& p : model.parameters()) {
    ++stream;  // parameter i drew from stream i, counted from 1
    if (p.tensor->ndim() < 2) continue;
    CAPTURE(p.name);
    CHECK(p.tensor->to_vector() == normal(p.tensor->shape(), 0, 0.02, 7, stream).to_vector());
    ++compared;
  }
  CHECK(compared >= 7);

  Random random(5, uint64_t(1) << 63 | uint64_t(2) << 40);
  std::vector<int64_t> order = {0, 1, 2, 3, 4, 5, 6, 7};
  for (int64_t i = 7; i > 0; --i) std::swap(order[size_t(i)], order[size_t(random.below(i + 1))]);
  CHECK(data::shuffled(8, 5, 2) == order);
}

TEST_CASE("streams: nobody draws past a range, and ranges that touch are seen") {
  CHECK(streams::mixup.at((uint64_t(1) << 40) - 1) == streams::mixup.last);
  CHECK_THROWS_WITH_AS(streams::mixup.at(uint64_t(1) << 40), doctest::Contains("mixup"), Error);
  using streams::Range;
  const auto apart = [](const std::vector<Range>& ranges) { return streams::apart(ranges); };
  CHECK(apart({Range{"a", 0, 1}, Range{"b", 2, 2}}));
  CHECK(!apart({Range{"a", 0, 2}, Range{"b", 2, 3}}));
  CHECK(!apart({Range{"a", 5, 9}, Range{"b", 2, 7}}));
  CHECK(!apart({Range{"a", 4, 4}, Range{"b", 4, 4}}));
  CHECK(!apart({Range{"a", 4, 3}}));
}

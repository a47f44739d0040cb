// Carlini & Wagner's attack, step by step against foolbox (tests/goldens/draw_attacks.py).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/files/safetensors.h"
#include "engine/ops.h"
#include "nn/attacks/registry.h"
#include "tests/message_of.h"

using namespace pursuit;
using namespace pursuit::attacks;

namespace {

CwOptions options_of(const TensorFile& file) {
  const auto json = nlohmann::json::parse(file.metadata.at("options"));
  return {.target = choice_of<CwOptions::Target>("target", file.metadata.at("target")),
          .confidence = json.at("confidence"),
          .lr = json.at("lr"),
          .steps = json.at("steps"),
          .searches = json.at("searches"),
          .c = json.at("c")};
}

std::string described(const OptionValues& options) {
  Settings s;
  s.name = "cw";
  s.options = options;
  return s.describe() + "; " + s.arguments();
}

}  // namespace

TEST_CASE("cw: finds the pictures that foolbox finds") {
  int compared = 0, not_found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PURSUIT_ATTACK_GOLDENS)) {
    CAPTURE(entry.path().string());
    TensorFile file = load_safetensors(entry.path().string());
    const auto stored = [&](const char* name) { return file.tensors.at(name); };
    const Tensor w1 = stored("w1"), b1 = stored("b1"), w2 = stored("w2"), b2 = stored("b2"), x = stored("x");
    const Logits logits = [&](const Tensor& images) {
      return linear(tanh(linear(images.reshape({images.size(0), -1}), w1, b1)), w2, b2);
    };
    const Tensor found = cw({logits, stored("labels"), true, 1}, x, options_of(file));
    const std::vector<double> got = found.to_vector(), want = stored("found").to_vector(),
                              before = x.to_vector(), succeeded = stored("succeeded").to_vector();
    const size_t pictures = succeeded.size(), entries = got.size() / pictures;
    REQUIRE(want.size() == got.size());
    for (size_t p = 0; p < pictures; ++p) {
      double off = 0, moved = 0;
      for (size_t i = p * entries; i < (p + 1) * entries; ++i) {
        // Where foolbox finds nothing, the picture comes back as it is.
        off += std::pow(got[i] - (succeeded[p] != 0 ? want[i] : before[i]), 2);
        moved += std::pow(want[i] - before[i], 2);
      }
      CAPTURE(p);
      // f32 sums in another order move a picture by 1e-6 of its size in a step, and Adam keeps that.
      CHECK(std::sqrt(off) <= (succeeded[p] != 0 ? 1e-4 + 1e-3 * std::sqrt(moved) : 0));
      ++compared;
      not_found += succeeded[p] == 0;
    }
  }
  CHECK(compared == 40);
  CHECK(not_found > 0);
}

TEST_CASE("cw: presets are defaults that other options override") {
  CHECK(described({}) == "10 steps, 5 searches, lr 0.1, c 0.01, confidence 0; ");
  CHECK(described({{"preset", std::string("published")}}) == described({}));
  CHECK(described({{"preset", std::string("usual")}}) ==
        "1000 steps, 9 searches, lr 0.01, c 0.001, confidence 0; --cw-preset usual");
  // 10 is the default of the other preset, and yet it is said.
  CHECK(described({{"preset", std::string("usual")}, {"steps", int64_t(10)}}) ==
        "10 steps, 9 searches, lr 0.01, c 0.001, confidence 0; --cw-preset usual --cw-steps 10");
  CHECK(described({{"steps", int64_t(10)}, {"confidence", 2.0}}) ==
        "10 steps, 5 searches, lr 0.1, c 0.01, confidence 2; --cw-confidence 2");
  CHECK(described({{"target", std::string("least")}}).find(", target least; --cw-target least") !=
        std::string::npos);
  CHECK(message_of([] {
          described({{"preset", std::string("best")}});
        }).find("known are published, usual") != std::string::npos);
}

TEST_CASE("cw: towards the model's own prediction nothing falls") {
  const Tensor w = uniform({3, 18}, -1, 1, 1, 2), x = uniform({5, 2, 3, 3}, -1, 1, 2, 2);
  const Logits logits = [&](const Tensor& images) { return linear(images.reshape({images.size(0), -1}), w); };
  const Tensor labels = argmax(logits(x));
  const Tensor own = cw({logits, labels, false, 1}, x,
                        {.target = CwOptions::Target::own, .confidence = 10, .steps = 20, .searches = 2});
  CHECK(argmax(logits(own)).to_vector() == labels.to_vector());
  const Tensor other = cw({logits, labels, false, 1}, x, {.target = CwOptions::Target::least, .steps = 200});
  const std::vector<double> is = argmax(logits(other)).to_vector(), all = logits(x).to_vector();
  for (size_t i = 0; i < 5; ++i) {
    const auto row = all.begin() + int64_t(3 * i);
    CHECK(int64_t(is[i]) == std::min_element(row, row + 3) - row);
  }
}

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/runtime.h"
#include "engine/base/error.h"
#include "engine/core/tape.h"
#include "engine/ops.h"
#include "engine/ops/row_sums.h"
#include "engine/step/graph.h"
#include "nn/rank_gradients.h"
#include "nn/transformer_lm.h"
#include "tests/differences.h"
#include "tests/message_of.h"
#include "tests/needs.h"

using namespace pursuit;

namespace {

constexpr int64_t vocab = 61, tokens = 12;

nn::LmConfig config() {
  nn::LmConfig c;
  c.vocab = vocab;
  c.context = 6;
  c.dim = 16;
  c.depth = c.heads = 2;
  c.hidden = 32;
  c.cutoffs = {20, 40};
  c.dropout = 0;
  return c;
}

std::unique_ptr<nn::TransformerLm> model_on(Device device, const nn::LmConfig& c = config()) {
  auto model = std::make_unique<nn::TransformerLm>(c);
  nn::initialise(*model, model->config().init, 1);
  model->to(device);
  model->set_training(true);
  return model;
}

// The ids of a batch [2, 6]: all different, repeated words, or a single word.
Tensor ids_of(int batch) {
  std::vector<int32_t> ids;
  for (int i = 0; i < tokens; ++i) ids.push_back(batch == 0 ? 5 * i : batch == 1 ? i * i % 4 : 60);
  return from_vector(ids, {2, 6});
}
Tensor labels_of(int batch) {
  std::vector<int32_t> labels;
  for (int i = 0; i < tokens; ++i) labels.push_back((7 * i + batch) % int(vocab));
  return from_vector(labels, {2, 6});
}

// The sum of the gradients of three batches, on a GPU recorded or not, after a step of other ones.
std::vector<double> sum_of_batches(Device device, bool apart, bool recorded = false) {
  const auto model = model_on(device);
  if (apart) model->keep_lookups_apart(tokens, tokens, 3, 1);
  nn::FlatParameters flat(model->parameters(), nn::decays_by_timm);
  nn::RankGradients gradients(flat, distributed::alone());
  const Tensor ids = ids_of(0).to(device), labels = labels_of(0).to(device);
  const auto work = [&] {
    model->loss(ids, labels).backward(full({}, 0.5, DType::f32, device));
    flat.add_grad();
  };
  std::unique_ptr<Graph> graph;
  for (int step = 0; step < 2; ++step) {
    flat.zero_sum();
    for (int batch = 0; batch < 3; ++batch) {
      model->set_step(1, uint64_t(step), uint64_t(batch));
      copy_values(ids, ids_of(step == 0 ? 0 : batch).to(device));
      copy_values(labels, labels_of(batch).to(device));
      if (recorded && step == 0 && batch == 1) graph = std::make_unique<Graph>(device, work);
      graph ? graph->launch() : work();
    }
    gradients.wait();
  }
  return flat.grads.to_vector();
}

// The names of the parameters in the order in which backward completes their gradients.
std::vector<std::string> order_of_arrival(bool apart) {
  const auto model = model_on(cpu);
  if (apart) model->keep_lookups_apart(tokens, tokens, 2, 1);
  std::vector<std::string> order;
  backward(model->loss(ids_of(0), labels_of(0)), full({}, 1), [&](const Node& leaf) {
    for (const nn::NamedTensor& p : model->parameters())
      if (p.tensor->node().get() == &leaf) order.push_back(p.name);
  });
  return order;
}

}  // namespace

TEST_CASE("lookups: kept apart they add up to the gradients of one process") {
  const std::vector<double> want = sum_of_batches(cpu, false), got = sum_of_batches(cpu, true);
  const double most = largest_magnitude(want);
  CHECK(most > 0.1);
  CHECK(largest_difference(got, want) < 1e-6 * most);
}

GPU_TEST_CASE("lookups: on a GPU, recorded or not, they add up to the CPU's") {
  const std::vector<double> want = sum_of_batches(cpu, true);
  for (const bool recorded : {false, true})
    CHECK(largest_difference(sum_of_batches(cuda_device(), true, recorded), want) < 1e-5);
}

TEST_CASE("lookups: apart from them the table's gradient is there before those of the blocks") {
  CHECK(order_of_arrival(false).back() == "embed.weight");
  const std::vector<std::string> order = order_of_arrival(true);
  CHECK(order.size() == model_on(cpu)->parameters().size());
  for (const std::string& name : order) {
    if (name == "embed.weight") break;
    CHECK(name.starts_with("output."));
  }
}

TEST_CASE("lookups: rows are added up by id in their order, and added to a table") {
  for (const Device device : cuda::available() ? std::vector{cpu, cuda_device()} : std::vector{cpu}) {
    const auto given = [&](const std::vector<float>& v, const Shape& s) { return from_vector(v, s, device); };
    const Tensor ids = from_vector<int64_t>({4, 0, 4, 2, 4}, {5}, device);
    const Tensor rows = given({1, 1e8f, 2, 20, 3, -1e8f, 4, 40, 5, 1}, {5, 2});
    const Tensor batch = from_vector<int64_t>({1}, {}, device);
    const Tensor numbers = full({2, 3}, -1, DType::i64, device), sums = zeros({2, 3, 2}).to(device);
    sum_rows(ids, rows, 6, batch, numbers, sums);
    CHECK(numbers.select(0, 0).to_vector() == std::vector<double>(3, -1));
    const Tensor table = full({6, 2}, 100, DType::f32, device);
    add_rows(numbers.select(0, 1), sums.select(0, 1), table);
    CHECK(table.to_vector() ==
          std::vector<double>{102, 120, 100, 100, 104, 140, 100, 100, 109, 101, 100, 100});
    const Tensor two = full({1, 2}, -1, DType::i64, device), few = zeros({1, 2, 2}).to(device);
    const auto too_many = [&] { sum_rows(ids, rows, 6, from_vector<int64_t>({0}, {}, device), two, few); };
    if (device == cpu) {
      CHECK(message_of(too_many) == "[sum_rows] more than 2 different ids");
    } else {
      too_many();
      CHECK(std::isnan(few.to_vector()[0]));
    }
  }
}

TEST_CASE("lookups: batches are added one after the other; one that gave nothing adds nothing") {
  Tensor table = zeros({6, 1});
  nn::Lookups lookups;
  lookups.keep_apart(table, 2, 2, 5, 1);
  for (int step = 0; step < 2; ++step) {
    lookups.clear();
    const float given[] = {1, 1e8f, -1e8f, 1};
    for (int batch = 0; batch < 4; ++batch) {
      if (step == 1 && batch == 0) continue;
      lookups.set_batch(batch);
      const Tensor rows = lookups.rows(from_vector<int64_t>({3, batch}, {2}), table);
      rows.backward(from_vector<float>({given[batch], 1}, {2, 1}));
    }
    const Tensor gradient = zeros({6, 1});
    lookups.add_to(gradient, distributed::alone());
    CHECK(gradient.to_vector() == std::vector<double>{step == 0 ? 1. : 0., 1, 1, 2, 0, 0});
  }
}

TEST_CASE("lookups: kept apart only where there are several batches, and few ids for the table") {
  const auto apart = [](const nn::LmConfig& c, int64_t ids, int64_t batches, int64_t ranks) {
    const auto model = model_on(cpu, c);
    model->keep_lookups_apart(ids, ids, batches, ranks);
    return nn::FlatParameters(model->parameters(), nn::decays_by_timm).lookups(0) != nullptr;
  };
  CHECK_FALSE(apart(config(), 12, 1, 1));
  CHECK(apart(config(), 12, 2, 1));
  CHECK(apart(config(), 12, 1, 2));
  CHECK(apart(config(), 12, 5, 2));  // 120 of 2 x 61
  CHECK_FALSE(apart(config(), 12, 3, 4));
  nn::LmConfig untied = config();
  untied.tied = false;
  CHECK_FALSE(apart(untied, 12, 1, 2));
}

TEST_CASE("lookups: what would be lost is an error") {
  const auto model = model_on(cpu);
  model->keep_lookups_apart(tokens, tokens, 2, 1);
  nn::FlatParameters flat(model->parameters(), nn::decays_by_timm);
  const auto backward = [&](const Tensor& ids) { model->loss(ids, labels_of(0)).backward(); };
  flat.zero_sum();
  backward(ids_of(0));
  CHECK(message_of([&] { backward(ids_of(0)); }) ==
        "[lookup] a batch looked up twice, and its gradients are kept for one lookup");
  CHECK(message_of([&] { flat.finish_grad(); }) ==
        "[optimizer] the lookups of embed.weight are kept apart, for steps of several batches: use zero_sum "
        "and RankGradients");
  flat.zero_sum();
  const Tensor one_row = ids_of(0).slice(0, 0, 1);
  CHECK(message_of([&] { model->loss(one_row, one_row).backward(); }) ==
        "[lookup] a batch looked up 6 rows, and gradients are kept for 12");
  flat.zero_sum();
  const Tensor rows = ids_of(0), loss = model->loss(rows, labels_of(0));
  copy_values(rows, ids_of(1));
  CHECK(message_of([&] { loss.backward(); }).find("copy_values has overwritten") != std::string::npos);
  const Tensor table = zeros({3, 2});
  CHECK(message_of([&] {
          add_rows(full({1}, 3, DType::i64), ones({1, 2}), table);
        }) == "[add_rows] number 0 is 3, need -1 to 2");
}

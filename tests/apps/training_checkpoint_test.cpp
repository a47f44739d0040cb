#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "apps/run/files.h"
#include "apps/training/checkpoint.h"
#include "engine/base/error.h"
#include "engine/ops.h"
#include "nn/layers.h"
#include "nn/norms.h"
#include "nn/sequential.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using Json = nlohmann::ordered_json;

namespace {

// A model with its optimizer and averaged weights, all of different values.
struct Trained {
  explicit Trained(uint64_t seed)
      : model(5, 3, Activation::gelu),
        flat((fill(model, seed), model.parameters()), nn::decays_by_timm),
        optimizer(flat, {}),
        ema(flat, 0.5) {
    copy_values(ema.values, normal(ema.values.shape(), 0, 1, seed, 100));
    for (const nn::NamedTensor& s : optimizer.state())
      copy_values(*s.tensor, normal(s.tensor->shape(), 0, 1, seed, 200));
  }
  static void fill(nn::Module& model, uint64_t seed) {
    uint64_t stream = 0;
    for (const nn::NamedTensor& p : model.parameters())
      copy_values(*p.tensor, normal(p.tensor->shape(), 0, 1, seed, ++stream));
  }
  void save(const std::string& file, const std::string& old_name = "") {
    apps::save_checkpoint(file, "test", Json{{"a", 1}}, state, model, optimizer, &ema, old_name);
  }

  nn::Mlp model;
  nn::FlatParameters flat;
  nn::Optimizer optimizer;
  nn::Ema ema;
  apps::RunState state;
};

bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.to_vector() == b.to_vector();
}

}  // namespace

TEST_CASE("checkpoint: averaged weights stand under the names of the parameters") {
  const TemporaryFolder folder;
  const std::string file = folder.file("a.safetensors");
  Trained saved(1), other(2);
  saved.save(file);
  apps::Checkpoint checkpoint = apps::open_checkpoint("test", file);
  CHECK(checkpoint.file.tensors.contains("ema.fc1.weight"));
  CHECK(checkpoint.parameters().size() == 4);

  apps::resume(checkpoint, other.model, other.optimizer, &other.ema);
  for (size_t i = 0; i < saved.ema.named().size(); ++i)
    CHECK(same(other.ema.named()[i].second, saved.ema.named()[i].second));
  CHECK(same(other.model.fc2.weight, saved.model.fc2.weight));
  apps::load_parameters(other.model, checkpoint, true);
  CHECK(same(other.model.fc2.weight, saved.ema.named()[2].second));

  // All in one buffer, as runs made before have them.
  for (const auto& [name, average] : saved.ema.named()) checkpoint.file.tensors.erase("ema." + name);
  CHECK(!apps::has_average(checkpoint));
  checkpoint.file.tensors["ema.values"] = saved.ema.values;
  CHECK(apps::has_average(checkpoint));
  Trained third(3);
  apps::resume(checkpoint, third.model, third.optimizer, &third.ema);
  for (size_t i = 0; i < saved.ema.named().size(); ++i)
    CHECK(same(third.ema.named()[i].second, saved.ema.named()[i].second));
}

TEST_CASE("checkpoint: running statistics are saved, resumed bit for bit, averaged and exported") {
  struct Net {
    nn::Sequential model;
    std::optional<nn::FlatParameters> flat;
    std::optional<nn::Optimizer> optimizer;
    std::optional<nn::Ema> ema;
    explicit Net(uint64_t seed) {
      model.add<nn::BatchNorm2d>(3).add(relu).add<nn::BatchNorm2d>(3);
      Trained::fill(model, seed);
      model.set_training(true);
      ema.emplace(flat.emplace(model), 0.5);
      optimizer.emplace(*flat);
    }
    void step(uint64_t number) {
      optimizer->zero_grad();
      mean(square(model(normal({4, 3, 2, 2}, 1, 2, 7, number)))).backward();
      optimizer->step(1e-2);
      ema->update();
    }
    bool same_as(const Net& other) const {
      bool all = same(ema->values, other.ema->values) && same(ema->buffers, other.ema->buffers);
      for (size_t i = 0; i < model.state().size(); ++i)
        all &= same(*model.state()[i].tensor, *other.model.state()[i].tensor);
      return all;
    }
  };
  const TemporaryFolder folder;
  const std::string file = folder.file("a.safetensors"), weights = folder.file("w.safetensors");
  Net whole(1), resumed(2);
  for (uint64_t i = 0; i < 3; ++i) whole.step(i);
  apps::RunState state;
  state.step = 3;
  apps::save_checkpoint(file, "test", Json{{"a", 1}}, state, whole.model, *whole.optimizer, &*whole.ema);
  const apps::Checkpoint checkpoint = apps::open_checkpoint("test", file);
  CHECK(checkpoint.parameters().size() == 10);
  CHECK(checkpoint.file.tensors.at("2.num_batches_tracked").dtype() == DType::i64);
  CHECK(checkpoint.file.tensors.at("2.num_batches_tracked").item() == 3);
  CHECK(checkpoint.file.tensors.contains("ema.2.running_var"));
  CHECK(!resumed.same_as(whole));
  apps::resume(checkpoint, resumed.model, *resumed.optimizer, &*resumed.ema);
  CHECK(resumed.same_as(whole));
  for (uint64_t i = 3; i < 6; ++i) whole.step(i), resumed.step(i);
  CHECK(resumed.same_as(whole));

  // The averaged ones, with the count as it is; in a file of weights under the same names.
  Net averaged(3);
  apps::load_parameters(averaged.model, checkpoint, true);
  apps::save_weights(weights, "test", Json{{"a", 1}}, averaged.model);
  const TensorFile exported = load_safetensors(weights);
  CHECK(exported.tensors.size() == 10);
  for (const char* name : {"0.running_mean", "0.running_var", "2.running_mean", "2.running_var"})
    CHECK(same(exported.tensors.at(name), checkpoint.file.tensors.at(std::string("ema.") + name)));
  CHECK(exported.tensors.at("0.num_batches_tracked").item() == 3);

  apps::Checkpoint without = checkpoint;
  without.file.tensors.erase("2.running_mean");
  CHECK_THROWS_WITH_AS(apps::load_parameters(averaged.model, without),
                       doctest::Contains("missing: 2.running_mean"), Error);
}

TEST_CASE("checkpoint: what is not finite is not saved, whatever it belongs to") {
  const TemporaryFolder folder;
  const std::string file = folder.file("a.safetensors");
  Trained good(1);
  good.save(file);
  const std::string bytes = apps::read_file(file);
  for (const double value : {double(INFINITY), -double(INFINITY), double(NAN)})
    for (const char* which : {"fc2.bias", "ema.fc1.bias", "optimizer.v"}) {
      Trained bad(1);
      Tensor at = bad.model.fc2.bias;
      if (std::string(which) == "ema.fc1.bias") at = bad.ema.named()[1].second;
      if (std::string(which) == "optimizer.v") at = *bad.optimizer.state()[1].tensor;
      copy_values(at.detach().slice(0, 1, 2), full({1}, value));
      CHECK_THROWS_WITH_AS(bad.save(file), doctest::Contains(which), apps::NotFinite);
    }
  CHECK(apps::read_file(file) == bytes);
  CHECK(folder.entries() == 1);
}

TEST_CASE("checkpoint: the one before stays under its name") {
  const TemporaryFolder folder;
  const std::string last = folder.file("checkpoint.safetensors"),
                    previous = folder.file("checkpoint-previous.safetensors");
  Trained run(1);
  std::string before;
  for (run.state.step = 0; run.state.step < 3; ++run.state.step) {
    run.optimizer.set_steps(run.state.step);
    run.save(last, previous);
    if (run.state.step > 0) CHECK(apps::read_file(previous) == before);
    before = apps::read_file(last);
    CHECK(apps::open_checkpoint("test", last).state.step == run.state.step);
  }
  // A program that was killed between the two names leaves one file under both.
  std::filesystem::remove(previous);
  std::filesystem::create_hard_link(last, previous);
  run.save(last, previous);
  CHECK(apps::read_file(previous) == before);
  CHECK(folder.entries() == 2);
  CHECK(apps::open_checkpoint("test", folder.path.string()).path == last);
}

TEST_CASE("checkpoint: damage is named, and a folder's checkpoint before is used") {
  const TemporaryFolder folder;
  const std::string last = folder.file("checkpoint.safetensors"),
                    previous = folder.file("checkpoint-previous.safetensors");
  Trained run(1);
  run.save(last);
  run.state.step = 1;
  run.save(last, previous);
  const std::string good = apps::read_file(last);
  const apps::Checkpoint checkpoint = apps::open_checkpoint("test", last);
  // A bit anywhere in the data or the metadata.
  for (size_t at = good.find("__metadata__"); at < good.size(); at += 29) {
    std::string bad = good;
    bad[at] = char(bad[at] ^ 1);
    std::ofstream(last, std::ios::binary) << bad;
    try {
      const apps::Checkpoint read = apps::open_checkpoint("test", last);
      // Accepted only if the changed byte is not used, such as in the name of the checksums.
      CHECK(read.config == checkpoint.config);
      for (const auto& [name, t] : checkpoint.file.tensors) CHECK(same(read.file.tensors.at(name), t));
    } catch (const Error& e) {
      CHECK(std::string(e.what()).find(last) != std::string::npos);
      CHECK(apps::open_checkpoint("test", folder.path.string()).path == previous);
    }
  }
}

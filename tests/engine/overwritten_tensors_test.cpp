// A tensor that backward needs and that was overwritten since: an error that names both operators, never a
// wrong gradient; and no error where the operator did not keep the tensor.
#include <doctest/doctest.h>

#include <functional>
#include <thread>

#include "cuda/runtime.h"
#include "engine/operator/elementwise.h"
#include "engine/step/graph.h"
#include "engine/step/transfer.h"
#include "nn/generator.h"
#include "nn/optim.h"
#include "tests/message_of.h"
#include "tests/needs.h"

using namespace pursuit;

namespace {

// An operator of somebody else: keeps its input, and knows nothing of versions.
struct Cube {
  static constexpr const char* name = "cube";
  Tensor x = {};
  Tensor forward(const Tensor& in) {
    x = in.contiguous();
    return in * in * in;
  }
  Grads backward(const Tensor& gy, Needs) { return {3.0 * x * x * gy}; }
  static std::vector<Sample<Cube>> samples() { return {{{}, {{{3}}}}}; }
};
// And one that keeps its result.
struct Root {
  static constexpr const char* name = "root";
  Tensor y = {};
  Tensor forward(const Tensor& in) { return y = sqrt(in); }
  Grads backward(const Tensor& gy, Needs) { return {gy * 0.5 / y}; }
  static std::vector<Sample<Root>> samples() { return {{{}, {{{3}, 1, 2}}}}; }
};

void names(const std::string& error, const std::string& operator_name, const std::string& writer) {
  CAPTURE(error);
  CHECK(error.find("[" + operator_name + "]") == 0);
  CHECK(error.find(writer) != std::string::npos);
}

std::vector<Device> devices() {
  std::vector<Device> all{cpu};
  if (cuda::available()) all.push_back(cuda_device());
  return all;
}

}  // namespace

TEST_CASE("overwritten: an input, a view of it or the result, by whatever writes") {
  for (const Device device : devices()) {
    const auto drawn = [&](uint64_t k) { return uniform({3, 4}, 1, 2, 1, k).to(device); };
    const std::vector<std::pair<std::string, std::function<void(const Tensor&)>>> writers = {
        {"add_to", [&](const Tensor& t) { add_to(t, drawn(2).reshape(t.shape())); }},
        {"copy_values", [&](const Tensor& t) { copy_values(t, drawn(3).reshape(t.shape())); }},
        {"copy_values", [&](const Tensor& t) { copy_values(t.slice(0, 1, 2), t.slice(0, 0, 1)); }},
        {"add_to", [&](const Tensor& t) { add_to(t.reshape({12}).slice(0, 5, 6), full({}, 1).to(device)); }}};
    for (const auto& [writer, write] : writers) {
      Tensor w = drawn(1);
      w.requires_grad();
      const Tensor x = drawn(4);
      // Saved tensors: the other factor, an input of a custom operator, a result, a view.
      {
        const Tensor loss = sum(w * x);
        write(x);
        names(message_of([&] { loss.backward(); }), "mul", writer);
      }
      {
        const Tensor loss = sum(apply(Cube{}, w));
        write(w.detach());
        names(message_of([&] { loss.backward(); }), "cube", writer);
      }
      {
        const Tensor y = apply(Root{}, w), loss = sum(y);
        write(y);
        names(message_of([&] { loss.backward(); }), "root", writer);
      }
      {
        const Tensor y = softmax(w), loss = sum(y.slice(1, 0, 2));
        write(y.transpose(0, 1).transpose(0, 1));
        names(message_of([&] { loss.backward(); }), "softmax", writer);
      }
      {
        const Tensor loss = sum(matmul(w, x.transpose(0, 1)));
        write(x);
        names(message_of([&] { loss.backward(); }), "matmul", writer);
      }
    }
  }
}

TEST_CASE("overwritten: what an operator does not keep may change") {
  Tensor w = uniform({3, 4}, 1, 2, 1, 1);
  w.requires_grad();
  const auto changes = [&](const std::function<Tensor(const Tensor&)>& f) {
    const Tensor x = uniform({3, 4}, 1, 2, 1, 2);
    w.zero_grad();
    sum(f(x)).backward();
    const std::vector<double> want = w.grad().to_vector();
    w.zero_grad();
    const Tensor y = f(x), loss = sum(y);
    add_to(x, ones({3, 4}));
    copy_values(y, zeros(y.shape()));
    CHECK_NOTHROW(loss.backward());
    CHECK(w.grad().to_vector() == want);
  };
  changes([&](const Tensor& x) { return w + x; });
  changes([&](const Tensor& x) { return x - w; });
  changes([&](const Tensor& x) { return concat({w, x}, 0); });
  changes([&](const Tensor& x) { return w.contiguous() * 2.0 + x.to(DType::f32); });
  changes([&](const Tensor& x) { return linear(w, ones({4, 4}), {}, x); });
  changes([&](const Tensor& x) { return (dropout(w, 0.5, 1, 1) + x).expand({2, 3, 4}).contiguous(); });
  // An operator keeps of its input and its result what its derivative is made of.
  {
    const Tensor y = gelu(w), loss = sum(y);
    add_to(y, ones({3, 4}));
    CHECK_NOTHROW(loss.backward());
  }
  {
    Tensor before = w.detach().contiguous() * 1.0;
    const Tensor loss = sum(exp(w));
    copy_values(w.detach(), zeros({3, 4}));
    CHECK_NOTHROW(loss.backward());
    copy_values(w.detach(), before);
  }
  // Saving again takes the current values; a node that has run does not need its tensors.
  const Tensor x = uniform({3, 4}, 1, 2, 1, 2);
  sum(w * x).backward();
  add_to(x, ones({3, 4}));
  CHECK_NOTHROW(sum(w * x).backward());
  // A copy is no view.
  const Tensor loss = sum(w * (x + 0.0));
  copy_values(x, zeros({3, 4}));
  CHECK_NOTHROW(loss.backward());
}

TEST_CASE("overwritten: what no gradient that is wanted is made of may change") {
  const auto drawn = [](const Shape& shape, uint64_t k) { return uniform(shape, 1, 2, 1, k); };
  using Inputs = std::vector<Tensor>;
  struct Case {
    const char* name;
    std::function<Tensor(const Inputs&)> f;
    std::vector<Shape> inputs;
    size_t wants;               // the input that takes a gradient
    std::vector<size_t> reads;  // those that its gradient is made of
  };
  const auto dense = [](const Inputs& in) { return mlp(in[0], in[1], in[2], in[3], in[4]); };
  const std::vector<Shape> two = {{3, 4}, {3, 4}}, layer = {{3, 4}, {5, 4}, {5}},
                           layers = {{3, 4}, {6, 4}, {6}, {5, 6}, {5}},
                           patches = {{2, 3, 4, 4}, {5, 3, 2, 2}, {5}};
  for (const Device device : devices()) {
    // A GPU keeps the patches that it gathered, not the images.
    const std::vector<size_t> images = device.is_cuda() ? std::vector<size_t>{} : std::vector<size_t>{0};
    const std::vector<Case> cases = {
        {"mul", [](const Inputs& in) { return in[0] * in[1]; }, two, 0, {1}},
        {"mul", [](const Inputs& in) { return in[0] * in[1]; }, two, 1, {0}},
        {"div", [](const Inputs& in) { return in[0] / in[1]; }, two, 0, {1}},
        {"div", [](const Inputs& in) { return in[0] / in[1]; }, two, 1, {0, 1}},
        {"matmul", [](const Inputs& in) { return matmul(in[0], in[1]); }, {{3, 4}, {4, 2}}, 0, {1}},
        {"matmul", [](const Inputs& in) { return matmul(in[0], in[1]); }, {{3, 4}, {4, 2}}, 1, {0}},
        {"linear", [](const Inputs& in) { return linear(in[0], in[1], in[2]); }, layer, 0, {1}},
        {"linear", [](const Inputs& in) { return linear(in[0], in[1], in[2]); }, layer, 1, {0}},
        {"linear", [](const Inputs& in) { return linear(in[0], in[1], in[2]); }, layer, 2, {}},
        {"mlp", dense, layers, 0, {1, 3}},
        {"mlp", dense, layers, 1, {0, 3}},
        {"patchify", [](const Inputs& in) { return patchify(in[0], in[1], in[2]); }, patches, 0, {1}},
        {"patchify", [](const Inputs& in) { return patchify(in[0], in[1], in[2]); }, patches, 1, images},
        {"soft_cross_entropy",
         [](const Inputs& in) { return soft_cross_entropy(in[0], in[1]); },
         two,
         0,
         {0, 1}},
        {"soft_cross_entropy",
         [](const Inputs& in) { return soft_cross_entropy(in[0], in[1]); },
         two,
         1,
         {0}}};
    for (const Case& c : cases)
      for (size_t overwritten = 0; overwritten < c.inputs.size(); ++overwritten) {
        CAPTURE(c.name);
        CAPTURE(c.wants);
        CAPTURE(overwritten);
        const auto run = [&](bool writes) {
          Inputs in;
          for (size_t i = 0; i < c.inputs.size(); ++i) in.push_back(drawn(c.inputs[i], i).to(device));
          in[c.wants].requires_grad();
          const Tensor loss = sum(square(c.f(in)));
          if (writes) copy_values(in[overwritten].detach(), drawn(c.inputs[overwritten], 9).to(device));
          loss.backward();
          return in[c.wants].grad().to_vector();
        };
        if (std::find(c.reads.begin(), c.reads.end(), overwritten) != c.reads.end())
          names(message_of([&] { run(true); }), c.name, "copy_values");
        else
          CHECK(run(true) == run(false));
      }
  }
}

TEST_CASE("overwritten: by whatever handle of the same memory, in whatever thread") {
  const std::vector<std::function<Tensor(const Tensor&)>> handles = {
      [](const Tensor& t) { return t; },
      [](const Tensor& t) { return t.detach(); },
      [](const Tensor& t) { return t.contiguous(); },
      [](const Tensor& t) { return t.to(DType::f32).to(cpu); },
      [](const Tensor& t) { return t.transpose(0, 1); },
      [](const Tensor& t) { return t.select(0, 1); },
      [](const Tensor& t) { return t.view({2}, {1}, 3); }};
  const auto loss_of = [](const Tensor& x) {
    Tensor w = ones({3, 4}).requires_grad();
    return sum(w * x);
  };
  for (const auto& handle : handles) {
    // Saved whole and written through the handle; and the other way about.
    const Tensor x = ones({3, 4}), same = handle(x);
    const Tensor loss = loss_of(x);
    add_to(same, same);
    names(message_of([&] { loss.backward(); }), "mul", "add_to");
    Tensor w = ones(same.shape()).requires_grad();
    const Tensor other = sum(w * same);
    copy_values(x, x + x);
    names(message_of([&] { other.backward(); }), "mul", "copy_values");
  }
  const Tensor x = ones({3, 4}), loss = loss_of(x);
  std::thread([&] { add_to(x, x); }).join();
  names(message_of([&] { loss.backward(); }), "mul", "add_to");
}

TEST_CASE("overwritten: the number of the random stream, from which backward draws the mask again") {
  for (const Device device : devices()) {
    Tensor w = ones({64, 3}).to(device).requires_grad();
    const Tensor counter = full({2}, 3, DType::i64).to(device);
    const auto drops = [&](auto operation) {
      const Tensor y = operation(w, 0.5, 1, 2, counter), loss = sum(y),
                   old = sum(operation(w, 0.5, 1, 2, counter));
      w.zero_grad();
      loss.backward();
      CHECK(w.grad().to_vector() == y.to_vector());
      copy_values(counter, full({2}, 4, DType::i64).to(device));
      return message_of([&] { old.backward(); });
    };
    names(drops(dropout), "dropout", "copy_values");
    names(drops([](const auto&... in) { return drop_path(in...); }), "drop_path", "copy_values");
  }
}

GPU_TEST_CASE("overwritten: the random numbers of a step, by that of the next") {
  const Device gpu = cuda_device();
  nn::Generator generator;
  generator.set_step(1, 0, 0, gpu);
  Tensor w = ones({64}).to(gpu).requires_grad();
  const auto loss = [&] { return sum(generator.dropout(0.5, streams::step::dropout)(w)); };
  const Tensor old = loss();
  generator.set_step(1, 1, 0, gpu);
  names(message_of([&] { old.backward(); }), "dropout", "the next step's random numbers");
  CHECK_NOTHROW(loss().backward());
}

TEST_CASE("overwritten: weights, by an optimizer's update or averaged weights that take their place") {
  for (const Device device : devices())
    for (const DType computes_in : {DType::f32, DType::bf16}) {
      Tensor a = uniform({4, 8}, -1, 1, 1, 1).to(device).requires_grad();
      Tensor b = uniform({4}, -1, 1, 1, 2).to(device).requires_grad();
      nn::FlatParameters flat({{"a", &a}, {"b", &b}}, nn::decays_by_timm, computes_in);
      nn::Optimizer optimizer(flat, {});
      nn::Ema ema(flat, 0.5);
      Tensor x = uniform({3, 8}, -1, 1, 1, 3).to(computes_in).to(device);
      x.requires_grad();  // its gradient is made of the weights
      const auto loss = [&] {
        return mean(square(linear(x, a.to(computes_in), b.to(computes_in)).to(DType::f32)));
      };
      const auto step = [&] {
        flat.zero_grad();
        loss().backward();
        optimizer.step(0.01);
        ema.update();
      };
      for (int i = 0; i < 3; ++i) CHECK_NOTHROW(step());

      Tensor old = loss();
      step();
      names(message_of([&] { old.backward(); }), "linear", "an optimizer");
      old = loss();
      ema.swap();
      names(message_of([&] { old.backward(); }), "linear", "copy_values");
      CHECK_NOTHROW(loss().item());
      ema.swap();
      CHECK_NOTHROW(step());
    }
}

TEST_CASE("overwritten: the batch that a step still needs, by the next one's upload") {
  for (const Device device : devices()) {
    Upload upload({3, 4}, DType::f32, device);
    Tensor w = ones({3, 4}).to(device).requires_grad();
    const std::vector<float> values(12, 2);
    for (int i = 0; i < 3; ++i) {
      upload.send(values.data());
      CHECK_NOTHROW(sum(w * upload.tensor()).backward());
    }
    const Tensor loss = sum(w * upload.tensor());
    upload.send(values.data());
    names(message_of([&] { loss.backward(); }), "mul", "an upload");
  }
}

GPU_TEST_CASE("overwritten: by a recorded step, which writes in every run") {
  const Device gpu = cuda_device();
  const Tensor x = ones({4}).to(gpu), other = ones({4}).to(gpu);
  Tensor w = ones({4}).to(gpu).requires_grad();
  add_to(x, x + other);  // loads the kernels
  const Graph graph(gpu, [&] { add_to(x, other); });
  CHECK_NOTHROW(sum(w * x).backward());
  const Tensor kept = sum(w * x), fine = sum(w * other);
  graph.launch();
  names(message_of([&] { kept.backward(); }), "mul", "a recorded step");
  CHECK_NOTHROW(fine.backward());
}

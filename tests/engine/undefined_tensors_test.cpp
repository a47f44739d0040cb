// An undefined tensor is answered with an error that names the function and the argument, wherever it is
// given: one check in apply(), one in the methods, and those of functions that are no operators.
#include <doctest/doctest.h>

#include <functional>

#include "data/npy.h"
#include "engine/files/safetensors.h"
#include "engine/operator/copy.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"
#include "engine/solve/gradcheck.h"
#include "engine/solve/linalg.h"
#include "engine/solve/pcp.h"
#include "engine/step/transfer.h"
#include "nn/adaptive_softmax.h"
#include "nn/attention/functions.h"
#include "nn/init.h"
#include "nn/metrics.h"
#include "nn/segmenter.h"
#include "nn/transformer_lm.h"
#include "nn/vit.h"
#include "tests/message_of.h"

using namespace pursuit;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Call {
  const char* name;  // what the error has in its brackets
  std::function<void()> call;
};

void refuse(const std::vector<Call>& calls) {
  for (const Call& c : calls) {
    CAPTURE(c.name);
    const std::string error = message_of(c.call);
    CAPTURE(error);
    CHECK(holds(error, std::string("[") + c.name + "]"));
    CHECK(holds(error, "undefined"));
  }
}

const Tensor none;

}  // namespace

TEST_CASE("undefined: every operator names itself and the argument, but for those that may be left out") {
  size_t refused = 0, left_out = 0;
  for (const OperatorInfo& op : inventory()) {
    CAPTURE(op.name);
    const std::vector<OperatorInfo::Case> cases = op.cases();
    REQUIRE(!cases.empty());
    const std::vector<Input>& inputs = cases[0].inputs;
    std::vector<Tensor> given;
    for (const Input& in : inputs) {
      if (!in.given)
        given.emplace_back();
      else
        given.push_back(in.integer ? zeros(in.shape, DType::i32) : uniform(in.shape, in.lo, in.hi, 1, 1));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      bool optional = false;
      for (const OperatorInfo::Case& c : cases)
        optional = optional || (i < c.inputs.size() && !c.inputs[i].given);
      std::vector<Tensor> some = given;
      some[i] = Tensor();
      const std::string error = message_of([&] { cases[0].run(some); });
      CAPTURE(error);
      if (optional) {
        ++left_out;
        CHECK(!holds(error, "undefined"));
        continue;
      }
      ++refused;
      CHECK(holds(error, "[" + op.name + "]"));
      CHECK(holds(error, inputs.size() == 1 ? std::string("its argument")
                                            : "argument " + std::to_string(i + 1) + " of"));
    }
  }
  CHECK(refused > 60);
  CHECK(
      left_out >=
      8);  // linear 2, mlp 1, linear_cross_entropy 1, rpc_attention 1, cross_attention 1, normalise_images 2
}

TEST_CASE("undefined: methods") {
  Tensor t, x = ones({2});
  refuse({{"item", [] { none.item(); }},
          {"to_vector", [] { none.to_vector(); }},
          {"to", [] { none.to(DType::f32); }},
          {"to", [] { none.to(DType::bf16); }},
          {"to", [] { none.to(cpu); }},
          {"data", [] { none.raw(); }},
          {"data", [] { none.data<float>(); }},
          {"contiguous", [] { none.contiguous(); }},
          {"reshape", [] { none.reshape({-1}); }},
          {"transpose", [] { none.transpose(0, 1); }},
          {"permute", [] { none.permute({}); }},
          {"slice", [] { none.slice(0, 0, 1); }},
          {"select", [] { none.select(0, 0); }},
          {"expand", [] { none.expand({2}); }},
          {"requires_grad", [&] { t.requires_grad(); }},
          {"bind_grad", [&] { x.bind_grad(none); }},
          {"bind_copy", [&] { ones({}).requires_grad().bind_copy(none); }},
          {"backward", [] { none.backward(); }},
          {"backward", [] { none.backward(ones({})); }},
          {"backward", [] { square(ones({}).requires_grad()).backward(none); }}});
  CHECK(!none.detach().defined());
  CHECK(!none.grad().defined());
}

TEST_CASE("undefined: functions of ops.h, those included that are no operators") {
  const Tensor x = ones({2, 3}), y = from_vector<int32_t>({0, 1}, {2});
  refuse({{"add", [&] { none + x; }},
          {"add", [&] { x + none; }},
          {"add", [] { none + none; }},
          {"sub", [&] { x - none; }},
          {"mul", [&] { none* x; }},
          {"div", [&] { x / none; }},
          {"affine", [] { none * 2.0; }},
          {"affine", [] { -none; }},
          {"add_to", [&] { add_to(x, none); }},
          {"add_to", [&] { add_to(none, x); }},
          {"add_to", [] { add_to(none, ones({})); }},
          {"copy_values", [&] { copy_values(none, x); }},
          {"copy_values", [] { copy_values(ones({}), none); }},
          {"relu", [] { relu(none); }},
          {"gelu", [] { gelu(none); }},
          {"clamp", [] { clamp(none, 0, 1); }},
          {"soft_threshold", [&] { soft_threshold(x, none); }},
          {"sum", [] { sum(none); }},
          {"sum", [] { sum(none, {0}); }},
          {"sum", [] { mean(none); }},
          {"sum_to", [] { sum_to(none, {}); }},
          {"argmax", [] { argmax(none); }},
          {"concat",
           [&] {
             concat({x, none}, 0);
           }},
          {"concat",
           [&] {
             concat({none, x}, 0);
           }},
          {"reshape", [] { stack({none}, 0); }},
          {"matmul", [&] { matmul(x, none); }},
          {"linear", [&] { linear(x, none); }},
          {"mlp", [&] { mlp(x, x, none, x, none); }},
          {"softmax", [] { softmax(none); }},
          {"log_softmax", [] { log_softmax(none); }},
          {"clipped_softmax", [] { clipped_softmax(none, 0, 1); }},
          {"layer_norm", [&] { layer_norm(x, none, none, 1e-6); }},
          {"cross_entropy", [&] { cross_entropy(none, y); }},
          {"cross_entropy", [&] { cross_entropy(x, none); }},
          {"soft_cross_entropy", [&] { soft_cross_entropy(x, none); }},
          {"upsample_cross_entropy", [] { upsample_cross_entropy(none, none); }},
          {"linear_cross_entropy", [&] { linear_cross_entropy(x, x, none, none); }},
          {"linear_log_prob", [&] { linear_log_prob(none, x, none, y); }},
          {"linear_log_prob", [&] { linear_log_prob(x, x, none, none); }},
          {"label_count", [] { label_count(none); }},
          {"labels_within", [] { labels_within(none, 0, 1); }},
          {"head_labels", [] { head_labels(none, {1}, 3); }},
          {"attention", [] { attention(none); }},
          {"cross_attention", [&] { cross_attention(none, x); }},
          {"cross_attention", [&] { cross_attention(x, none); }},
          {"rpc_attention", [] { rpc_attention(none); }},
          {"rpc_last_keys", [] { rpc_last_keys(none); }},
          {"singular_value_threshold", [&] { singular_value_threshold(none, 1.0); }},
          {"singular_value_threshold", [&] { singular_value_threshold(x, none); }},
          {"dropout", [] { dropout(none, 0, 1, 1); }},
          {"dropout", [] { dropout(none, 0.5, 1, 1); }},
          {"drop_path", [] { drop_path(none, 0, 1, 1); }},
          {"add_norm",
           [] {
             add_norm(none, none, {none, none});
           }},
          {"residual_mlp",
           [] {
             residual_mlp(none, none, {none, none}, {}, none, none, none, none, {}, {none, none}, {});
           }},
          {"normalise_images", [] { normalise_images(none, {0.0}, {1.0}); }},
          {"patchify", [&] { patchify(none, x, x); }},
          {"embedding", [&] { embedding(none, x); }},
          {"embedding", [&] { embedding(y, none); }},
          {"upsample_bilinear", [] { upsample_bilinear(none, 2, 2); }},
          {"upsample_argmax", [] { upsample_argmax(none, 2, 2); }},
          {"empty_like", [] { empty_like(none); }},
          {"zeros_like", [] { zeros_like(none); }},
          {"svd", [] { svd(none); }},
          {"principal_component_pursuit", [] { principal_component_pursuit(none); }},
          {"reshape", [] { Readback(cpu).start(none); }}});
}

TEST_CASE("undefined: modules, losses and measures") {
  nn::VitConfig vit;
  vit.image = 8, vit.patch = 4, vit.channels = 1, vit.dim = 8, vit.depth = 1, vit.heads = 2, vit.classes = 2;
  const nn::VisionTransformer model(vit);
  nn::LmConfig text;
  text.vocab = 8, text.context = 4, text.dim = 8, text.depth = 1, text.heads = 2, text.hidden = 8;
  const nn::TransformerLm lm(text);
  const nn::AdaptiveSoftmax output(4, 6, {2}, 2);
  const Tensor x = ones({2, 4}), ids = zeros({1, 4}, DType::i32);
  Tensor unset;
  refuse({{"vit", [&] { model.forward(none); }},
          {"lm", [&] { lm.loss(none, none); }},
          {"lm", [&] { lm.loss(ids, none); }},
          {"adaptive_softmax", [&] { output.loss(none, none); }},
          {"adaptive_softmax", [&] { output.loss(x, none); }},
          {"gated_attention", [] { nn::gated_attention(none, none, none, none, {}); }},
          {"svt_attention", [] { nn::svt_attention(none, {}); }},
          {"copy_values", [&] { nn::fill_normal(unset, 0, 1, 0, 0); }},
          {"top_k", [] { nn::top_k_correct(none, none, 1); }},
          {"confusion matrix", [] { nn::ConfusionMatrix(2).add(none, none); }}});
}

#include <cmath>

#include "engine/ops.h"
#include "nn/attention/functions.h"
#include "nn/attention/kind.h"

// A kind that the engine does not have: softmax(q k^T / (sqrt(D) t e^s)) v with an option t and a learned s.
// Linked into the apps it is on their command lines, in recipes, exports and reports.
namespace {

using namespace pursuit;

struct Tempered : nn::AttentionKind {
  static constexpr nn::KindTraits traits = {.name = "tempered", .title = "tempered attention"};
  struct Options {
    double temperature = 1;
  };

  template <class O, class F> static void for_each_option(O& o, const F& f) {
    f("temperature", o.temperature, "what scores are divided by", above(0, 1e3));
  }

  Tempered(const nn::AttentionLayer& layer, const Options& o) : AttentionKind(layer), options(o) {
    add_parameter("log_temperature", log_temperature, {1});
  }

  Tensor mix(const Tensor& packed, const Tensor& x) const override {
    return nn::merge_heads(mix_by(probabilities(packed, packed.size(1)), values(packed), x, {}));
  }

  std::pair<Tensor, Tensor> queries_and_keys(const Tensor& packed) const override {
    const Tensor temperature = exp(log_temperature.to(packed.dtype())) * options.temperature;
    return {nn::part(packed, 0) / temperature, nn::part(packed, 1)};
  }

  Options options;
  Tensor log_temperature;
};
PURSUIT_ATTENTION_KIND(Tempered)

}  // namespace

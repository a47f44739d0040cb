#pragma once
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/ops.h"
#include "nn/generator.h"
#include "nn/module.h"
#include "nn/options.h"

// An attention kind is one type in one file, as an operator is:
//
//   struct Tempered : AttentionKind {
//     static constexpr KindTraits traits = {.name = "tempered", .title = "tempered attention"};
//     struct Options {
//       double temperature = 1;
//     };
//     template <class O, class F>
//     static void for_each_option(O& o, const F& f) {
//       f("temperature", o.temperature, "what scores are divided by", above(0, 1e3));
//     }
//     Tempered(const AttentionLayer& layer, const Options& o) : AttentionKind(layer), options(o) {}
//     Tensor mix(const Tensor& packed, const Tensor&) const override { ... }
//     Options options;
//   };
//   PURSUIT_ATTENTION_KIND(Tempered)
//
// This adds it to every list of kinds, and its options to the command lines, recipes and config files of all
// apps. Its own parameters are registered in its constructor, under their names in the layer.
namespace pursuit::nn {

struct KindTraits {
  const char* name;
  const char* title = nullptr;  // for use in sentences; default: "NAME attention"
  bool shares_queries = false;  // keys serve as queries: projections are k and v, not q, k and v
  bool may_be_causal = true;    // false: every token attends to all tokens
  bool has_cache = false;       // keys and values of earlier tokens are all it needs of them, if causal
  bool iterates = false;        // "iterations" times; by default in the first block only
  bool exponential = true;      // a query weighs keys by exp(q k / sqrt(D)), the kernel of nn/kernel_pca.h
};

// An iteration of principal component pursuit, which splits the keys K into L + S + rest; [B, H, N, D].
struct PursuitStep {
  Tensor low_rank, sparse;
};

// The attention layer that a kind belongs to, as passed to its constructor.
struct AttentionLayer {
  int64_t dim, heads;
  int64_t tokens;  // sequence length; 0: any
  bool causal;
};

// The part of an attention layer that differs between kinds: how tokens are mixed. Packed projections are [B,
// N, parts, H, D], with parts q, k, v, or k, v if keys serve as queries. All methods are differentiable.
class AttentionKind : public Module {
 public:
  explicit AttentionKind(const AttentionLayer& layer) : layer_(layer) {}

  // The mixture [B, N, H * D]; x [B, N, dim] is the layer's input.
  virtual Tensor mix(const Tensor& packed, const Tensor& x) const = 0;

  // The same computed from stored probabilities, as needed for dropout, caches and pictures of attention:
  // mix_by(probabilities(packed, N), values(packed), x, {}) is mix(packed, x) as [B, H, N, D]. For kinds that
  // iterate, the probabilities are those of the last iteration.
  //
  // probabilities of the first `queries` tokens, [B, H, queries, N]; by default softmax(q k^T / sqrt(D)) of
  // queries_and_keys.
  virtual Tensor probabilities(const Tensor& packed, int64_t queries) const;
  // [B, H, N, D] each; by default q and k. For kinds that iterate, those of the last iteration.
  virtual std::pair<Tensor, Tensor> queries_and_keys(const Tensor& packed) const;
  // The weights by which values are mixed, of these probabilities: themselves; clipped softmax clips them.
  virtual Tensor weights(const Tensor& probabilities) const { return probabilities; }
  // The values that are mixed, [B, H, N, D]; by default v.
  virtual Tensor values(const Tensor& packed) const;
  // Maps probabilities [B, H, M, N] of the tokens x [B, M, dim] to [B, H, M, D].
  virtual Tensor mix_by(const Tensor& probabilities, const Tensor& values, const Tensor& x,
                        const Dropout& dropout) const;

  // For quantised models: mix(packed, x) is gated(attention(packed, softmax_options()), x). By default none,
  // and tokens are mixed in floating point.
  virtual std::optional<AttentionOptions> softmax_options() const { return {}; }
  virtual Tensor gated(const Tensor& mixed, const Tensor&) const { return mixed; }  // [B, N, H * D]

  // For inspection. The iterations of a kind that iterates.
  virtual std::vector<PursuitStep> pursuit(const Tensor&) const { return {}; }
  // S [B, H, N, N] of a kind that mixes (I - S) v instead of v; undefined for others.
  virtual Tensor subtracted(const Tensor&) const { return {}; }

 protected:
  // softmax(q k^T / sqrt(D)) of the first `queries` tokens; q and k [B, H, N, D].
  Tensor softmax_of(const Tensor& q, const Tensor& k, int64_t queries) const;
  const AttentionLayer& layer() const { return layer_; }

 private:
  AttentionLayer layer_;
};

// Options of kinds by name. Options left out have their defaults, and a kind reads only its own.
using KindOptions = OptionValues;

struct KindOption : Option {
  bool of_causal = false;               // only applies to causal models
  std::vector<std::string> kinds = {};  // that have it, set by attention_options()
};

struct KindInfo {
  KindTraits traits;
  std::vector<KindOption> options;
  std::function<std::unique_ptr<AttentionKind>(const AttentionLayer&, const KindOptions&)> make;

  std::string title() const { return traits.title ? traits.title : std::string(traits.name) + " attention"; }
};

// The names of all kinds, sorted.
std::vector<std::string> attention_kinds();
// Throws Error that lists the names.
const KindInfo& attention_kind(const std::string& name);
// The options of all kinds, each once.
const std::vector<KindOption>& attention_options();
// All options with their defaults.
KindOptions default_kind_options();
// Throws Error for names that no kind has, wrong types, values out of range, and unknown words.
void check_kind_options(const KindOptions& options);

// Marks an option as of_causal: the last argument of for_each_option's function.
struct OfCausal {};

namespace detail {

void register_kind(KindInfo info);
template <class Kind> KindInfo kind_info() {
  KindInfo info{Kind::traits, {}, {}};
  if constexpr (requires { typename Kind::Options; }) {
    const typename Kind::Options defaults;
    const auto add = [&](const char* name, const auto& member, const char* help, Range range = {},
                         bool of_causal = false) {
      info.options.push_back({described(name, member, help, range), of_causal});
    };
    Kind::for_each_option(defaults,
                          [&](const char* name, const auto& member, const char* help, auto... more) {
                            if constexpr ((std::same_as<decltype(more), OfCausal> || ...))
                              add(name, member, help, {}, true);
                            else
                              add(name, member, help, more...);
                          });
    info.make = [](const AttentionLayer& layer, const KindOptions& given) {
      typename Kind::Options options;
      Kind::for_each_option(options, [&](const char* name, auto& member, const char*, auto...) {
        if (const auto found = given.find(name); found != given.end())
          read_option("attention", name, found->second, member);
      });
      return std::make_unique<Kind>(layer, options);
    };
  } else {
    info.make = [](const AttentionLayer& layer, const KindOptions&) { return std::make_unique<Kind>(layer); };
  }
  return info;
}

template <class Kind> struct RegisterKind {
  RegisterKind() { register_kind(kind_info<Kind>()); }
};

}  // namespace detail

#define PURSUIT_ATTENTION_KIND(Kind) static const ::pursuit::nn::detail::RegisterKind<Kind> registered_##Kind;

}  // namespace pursuit::nn

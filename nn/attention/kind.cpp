#include "nn/attention/kind.h"

#include <algorithm>
#include <cmath>

#include "engine/ops.h"
#include "nn/attention/functions.h"

namespace pursuit::nn {

namespace {

// A map, so that lists are sorted by name: the order of registrations is not defined.
std::map<std::string, KindInfo>& inventory() {
  static std::map<std::string, KindInfo> all;
  return all;
}

std::vector<KindOption> options_of_all() {
  std::vector<KindOption> all;
  for (const auto& [name, kind] : inventory())
    for (const KindOption& option : kind.options) {
      const auto same =
          std::find_if(all.begin(), all.end(), [&](const auto& o) { return o.name == option.name; });
      if (same == all.end()) {
        all.push_back(option);
        all.back().kinds = {name};
        continue;
      }
      if (same->value != option.value || same->words != option.words)
        fail("attention", "option " + option.name + " is another one of " + name + " than of " +
                              same->kinds[0] + "; give it another name");
      same->kinds.push_back(name);
    }
  return all;
}

}  // namespace

std::pair<Tensor, Tensor> AttentionKind::queries_and_keys(const Tensor& packed) const {
  return {part(packed, 0), part(packed, -2)};
}

Tensor AttentionKind::probabilities(const Tensor& packed, int64_t queries) const {
  const auto [q, k] = queries_and_keys(packed);
  return softmax_of(q, k, queries);
}

Tensor AttentionKind::values(const Tensor& packed) const { return part(packed, -1); }

Tensor AttentionKind::mix_by(const Tensor& probabilities, const Tensor& values, const Tensor&,
                             const Dropout& dropout) const {
  return matmul(dropout(weights(probabilities)), values);
}

Tensor AttentionKind::softmax_of(const Tensor& q, const Tensor& k, int64_t queries) const {
  const int64_t head_dim = layer_.dim / layer_.heads;
  const double scale = 1 / std::sqrt(double(head_dim));
  // The causal mask aligns the queries with the last tokens, so all are computed before slicing.
  if (layer_.causal) return attention_weights(q, k, scale, true).slice(2, 0, queries);
  return attention_weights(q.slice(2, 0, queries), k, scale, false);
}

std::vector<std::string> attention_kinds() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : inventory()) names.push_back(name);
  return names;
}

const KindInfo& attention_kind(const std::string& name) {
  if (const auto found = inventory().find(name); found != inventory().end()) return found->second;
  std::string known;
  for (const std::string& other : attention_kinds()) known += (known.empty() ? "" : ", ") + other;
  fail("attention", "unknown kind '" + name + "'; known are " + known);
}

const std::vector<KindOption>& attention_options() {
  static const std::vector<KindOption> all = options_of_all();
  return all;
}

KindOptions default_kind_options() {
  KindOptions values;
  for (const KindOption& option : attention_options()) values[option.name] = option.value;
  return values;
}

void check_kind_options(const KindOptions& options) {
  const std::vector<KindOption>& known = attention_options();
  for (const auto& [name, value] : options) {
    const auto option = std::find_if(known.begin(), known.end(),
                                     [&name = name](const KindOption& o) { return o.name == name; });
    if (option == known.end()) fail("attention", "no kind has an option '" + name + "'");
    check_option("attention", *option, value);
  }
}

namespace detail {

void register_kind(KindInfo info) {
  const std::string name = info.traits.name;
  if (!inventory().emplace(name, std::move(info)).second)
    fail("attention", "there are two kinds of the name '" + name + "'");
}

}  // namespace detail

}  // namespace pursuit::nn

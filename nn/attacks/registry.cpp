#include "nn/attacks/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "engine/ops.h"

namespace pursuit::attacks {

namespace {

// A map, so that lists are sorted by name: the order of registrations is not defined.
std::map<std::string, AttackInfo>& inventory() {
  static std::map<std::string, AttackInfo> all;
  return all;
}

const Option& option_of(const AttackInfo& info, const std::string& name) {
  for (const Option& option : info.options)
    if (option.name == name) return option;
  fail("attack", fmt::format("{} has no option '{}'", info.traits.name, name));
}

Tensor per_channel(const std::vector<double>& values, const Tensor& images) {
  if (int64_t(values.size()) != images.size(1))
    fail("attack", "the normalisation is for " + std::to_string(values.size()) +
                       " channels, the pictures are " + images.str());
  return from_vector(values, {1, images.size(1), 1, 1}).to(images.dtype()).to(images.device());
}

Logits mean_of_draws(const Logits& logits, int draws) {
  return [logits, draws](const Tensor& images) {
    Tensor sum = logits(images);
    for (int i = 1; i < draws; ++i) sum = sum + logits(images);
    return sum / double(draws);
  };
}

// Throws Error if two calls give the same.
void check_draws(const Logits& logits, const Tensor& images, int draws) {
  if (draws < 1) fail("attack", fmt::format("got {} draws, need at least 1", draws));
  const NoGrad off;
  if (draws > 1 && logits(images).to_vector() == logits(images).to_vector())
    fail("attack", fmt::format("a mean over {} draws needs a model that draws random numbers; two calls of "
                               "this one give the same logits",
                               draws));
}

}  // namespace

const std::vector<std::string>& names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> list;
    for (const auto& [name, info] : inventory()) list.push_back(name);
    return list;
  }();
  return all;
}

const AttackInfo& info_of(const std::string& name) {
  const auto found = inventory().find(name);
  if (found == inventory().end())
    fail("attack", fmt::format("there is no attack '{}'; known are {}", name, fmt::join(names(), ", ")));
  return found->second;
}

double Settings::radius() const { return info_of(name).traits.norm == Norm::linf ? budget / 255 : budget; }

std::string Settings::describe() const { return info_of(name).describe(options, classes); }

std::string Settings::arguments() const {
  const AttackInfo& info = info_of(name);
  std::string text;
  for (const auto& [option, value] : options) {
    OptionValues others = options;
    others.erase(option);
    if (info.complete(others) == info.complete(options)) continue;
    text += fmt::format("--{}-{} ", name, option);
    std::visit([&](const auto& given) { text += fmt::format("{} ", given); }, value);
  }
  if (!text.empty()) text.pop_back();
  return text;
}

Tensor attack(const Logits& model, const Tensor& images, const Tensor& labels, const Settings& s,
              const std::vector<int64_t>& pictures) {
  if (images.ndim() != 4) fail("attack", "the pictures are " + images.str() + ", need [B, C, H, W]");
  if (!pictures.empty() && int64_t(pictures.size()) != images.size(0))
    fail("attack", std::to_string(pictures.size()) + " numbers do not fit the pictures " + images.str());
  const AttackInfo& info = info_of(s.name);
  for (const auto& [name, value] : s.options) nn::check_option("attack", option_of(info, name), value);
  const auto run = [&](const Victim& victim, const Tensor& x) {
    return info.run(victim, x, s.radius(), s.options);
  };
  const Tensor x = images.detach();
  check_draws(model, x, s.draws);
  const Logits logits = s.draws > 1 ? mean_of_draws(model, s.draws) : model;
  if (!s.pixel) {
    Tensor predicted;
    {
      NoGrad off;
      predicted = argmax(logits(x)).to(x.device());
    }
    return run({logits, predicted, false, s.seed, pictures}, x).detach();
  }
  const Tensor mean = per_channel(s.mean, x), std = per_channel(s.std, x);
  const Logits of_pixels = [&](const Tensor& pixels) { return logits((pixels - mean) / std); };
  const Tensor pixels = clamp(x * std + mean, 0, 1);
  return (run({of_pixels, labels, true, s.seed, pictures}, pixels).detach() - mean) / std;
}

std::vector<Length> lengths(const Tensor& before, const Tensor& after, const Settings& s) {
  NoGrad off;
  Tensor d = after - before;
  if (s.pixel) d = d * per_channel(s.std, before);
  const std::vector<double> l2 = sqrt(sum(square(d), {1, 2, 3})).to_vector(), entries = abs(d).to_vector();
  const size_t each = entries.size() / std::max<size_t>(l2.size(), 1);
  std::vector<Length> all;
  for (size_t i = 0; i < l2.size(); ++i)
    all.push_back({*std::max_element(entries.begin() + i * each, entries.begin() + (i + 1) * each), l2[i]});
  return all;
}

namespace detail {

void register_attack(AttackInfo info) {
  const std::string name = info.traits.name;
  if (!inventory().emplace(name, std::move(info)).second)
    fail("attack", "there are two attacks of the name '" + name + "'");
}

}  // namespace detail

}  // namespace pursuit::attacks

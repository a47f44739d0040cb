#include "apps/classify/surrogate.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/ops.h"

namespace pursuit::classify {

namespace {

std::string size_of(const Config& c) {
  return fmt::format("{} x {} pixels of {} channels", c.image_size, c.image_size, c.channels);
}

Tensor per_channel(const std::vector<double>& values, const Tensor& images) {
  return from_vector(values, {1, images.size(1), 1, 1}).to(images.dtype()).to(images.device());
}

}  // namespace

Surrogate::Surrogate(const std::string& run, const apps::LoadOptions& load, const Config& evaluated)
    : loaded_(apps::load_model<Config>(run, load)), mean_(evaluated.mean), std_(evaluated.std) {
  const Config& own = loaded_.config;
  const auto refuse = [&](const std::string& has, const std::string& needs) {
    fail("eval", fmt::format("--attacked-by {}: its model {}, the evaluated one {}; both need the same", run,
                             has, needs));
  };
  if (size_of(own) != size_of(evaluated)) refuse("takes " + size_of(own), "takes " + size_of(evaluated));
  if (own.classes.size() != evaluated.classes.size())
    refuse(fmt::format("knows {} classes", own.classes.size()),
           fmt::format("knows {}", evaluated.classes.size()));
  const auto [here, there] = std::mismatch(own.classes.begin(), own.classes.end(), evaluated.classes.begin());
  if (here != own.classes.end())
    refuse(fmt::format("has '{}' as class {}", *here, here - own.classes.begin()),
           fmt::format("has '{}'", *there));
}

Tensor Surrogate::operator()(const Tensor& images) const {
  const Config& own = loaded_.config;
  if (own.mean == mean_ && own.std == std_) return (*loaded_.model)(images);
  const Tensor pixels = images * per_channel(std_, images) + per_channel(mean_, images);
  return (*loaded_.model)((pixels - per_channel(own.mean, images)) / per_channel(own.std, images));
}

}  // namespace pursuit::classify

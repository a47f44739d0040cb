#include "apps/training/model_sizes.h"

#include <fmt/format.h>

#include <set>

#include "engine/base/error.h"

namespace pursuit::apps {

namespace {

// The number of different words that follow the name up to the next dot: blocks.0, blocks.1, ...
int64_t count_blocks(const TensorFile& file, const std::string& name) {
  std::set<std::string> numbers;
  for (auto it = file.tensors.lower_bound(name); it != file.tensors.end() && it->first.starts_with(name);
       ++it)
    numbers.insert(it->first.substr(name.size(), it->first.find('.', name.size()) - name.size()));
  return int64_t(numbers.size());
}

}  // namespace

std::vector<ModelSize> vit_sizes(const nn::VitConfig& c, const std::string& prefix) {
  const std::string patch = prefix + "patch_embed.proj.weight", blocks = prefix + "blocks.";
  return {
      {"dim", c.dim, patch, 0},
      {"channels", c.channels, patch, 1},
      {"patch", c.patch, patch, 2},
      {"patch", c.patch, patch, 3},
      {c.width ? "height and width" : "image-size", c.patch > 0 ? c.tokens() : 0, prefix + "pos_embed", 1},
      {"depth", c.depth, blocks, ModelSize::blocks},
      {"mlp-ratio", c.hidden(), blocks + "0.mlp.fc1.weight", 0}};
}

void check_sizes(const std::vector<ModelSize>& sizes, const TensorFile& file) {
  for (const ModelSize& s : sizes) {
    if (s.dimension == ModelSize::blocks) {
      const int64_t count = count_blocks(file, s.tensor);
      if (count != s.value)
        fail("config", fmt::format("'{}' asks for {} blocks, the weights have {}", s.field, s.value, count));
      continue;
    }
    const auto found = file.tensors.find(s.tensor);
    if (found == file.tensors.end())
      fail("config", fmt::format("'{}' asks for {} in {}, which is not there", s.field, s.value, s.tensor));
    const Shape& shape = found->second.shape();
    if (s.dimension >= shape.size() || shape[s.dimension] != s.value)
      fail("config", fmt::format("'{}' asks for {} in dimension {} of {}, which is {}", s.field, s.value,
                                 s.dimension, s.tensor, shape.str()));
  }
}

}  // namespace pursuit::apps

#include "apps/classify/infer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "apps/terminal/print.h"

namespace pursuit::classify {

namespace {

// Finds the attention kind by its own parameters and by the parts of its projection (2 or 3). If several
// kinds fit, takes the first and prints a note.
std::string infer_attention(const std::string& wanted, const TensorFile& weights, const std::string& file) {
  if (wanted != "softmax") return wanted;
  const auto qkv = weights.tensors.find("blocks.0.attn.qkv.weight");
  std::vector<std::string> fitting;
  for (const std::string& name : nn::attention_kinds()) {
    const nn::KindInfo& kind = nn::attention_kind(name);
    const std::vector<nn::NamedTensor> own = kind.make({1, 1, 1, false}, {})->parameters();
    const auto is_there = [&](const nn::NamedTensor& p) {
      return weights.tensors.contains("blocks.0.attn." + p.name);
    };
    const bool parts_fit = qkv == weights.tensors.end() || qkv->second.ndim() != 2 ||
                           qkv->second.size(0) == (kind.traits.shares_queries ? 2 : 3) * qkv->second.size(1);
    if (!own.empty() && parts_fit && std::all_of(own.begin(), own.end(), is_there)) fitting.push_back(name);
  }
  if (fitting.empty()) return wanted;
  if (fitting.size() > 1)
    apps::note("note: {} may be of any of {}; it is taken for {}, another is chosen by --attention\n", file,
               fmt::format("{}", fmt::join(fitting, ", ")), fitting[0]);
  return fitting[0];
}

std::string kinds_that_share_queries() {
  std::vector<std::string> names = nn::attention_kinds();
  std::erase_if(names, [](const std::string& n) { return !nn::attention_kind(n).traits.shares_queries; });
  return fmt::format("{}", fmt::join(names, ", "));
}

// The architecture that has the weights' names.
Architecture architecture_of(const TensorFile& weights) {
  if (weights.tensors.contains("blocks.0.mlp.temperature")) return Architecture::fan_tiny;
  if (!weights.tensors.contains("layer1.0.conv1.weight")) return Architecture::vit;
  return weights.tensors.contains("layer1.0.conv3.weight") ? Architecture::resnet50 : Architecture::resnet18;
}

// These three set the model's sizes in the config from the weights' shapes; they return the number of
// classes.
int64_t infer_resnet(Config& c, const TensorFile& weights, const std::string& file) {
  const auto shape_of = [&](const char* name, size_t dimensions) -> Shape {
    const auto it = weights.tensors.find(name);
    if (it == weights.tensors.end())
      fail("import",
           fmt::format("{}: not the weights of a ResNet with a classifier as timm names them; missing "
                       "is {}",
                       file, name));
    if (it->second.ndim() != int64_t(dimensions))
      fail("import",
           fmt::format("{}: '{}' is {}, need {} dimensions", file, name, it->second.str(), dimensions));
    return it->second.shape();
  };
  const Shape stem = shape_of("conv1.weight", 4), head = shape_of("fc.weight", 2);
  if (stem[0] < 1 || (stem[1] != 1 && stem[1] != 3) || (stem[2] != 3 && stem[2] != 7) || head[0] < 1)
    fail("import",
         fmt::format("{}: 'conv1.weight' is {}, need [width, 1 or 3 channels, 7, 7], or 3, 3 for small "
                     "pictures; 'fc.weight' is {}, need [classes, features]",
                     file, stem.str(), head.str()));
  c.width = stem[0];
  c.channels = stem[1];
  c.stem = stem[2] == 3 ? Stem::small : Stem::large;
  if (c.image_size == 0) c.image_size = c.stem == Stem::small ? 32 : 224;
  c.heads = Config().heads;  // which is no option of a ResNet
  const auto blocks = std::get<nn::ResNetConfig>(model_config(c)).blocks;
  for (size_t i = 0; i < blocks.size(); ++i)
    for (const auto& [block, needed] : {std::pair{blocks[i] - 1, true}, {blocks[i], false}})
      if (weights.tensors.contains(fmt::format("layer{}.{}.conv1.weight", i + 1, block)) != needed)
        fail("import",
             fmt::format("{}: layer{} has not the {} blocks of {}; resnet18 and resnet50 can be imported",
                         file, i + 1, blocks[i], choice_name(c.model)));
  return head[0];
}

// The number of blocks, from the largest of their numbers.
int64_t infer_depth(const TensorFile& weights, const std::string& file) {
  int64_t depth = 0;
  for (const auto& [name, tensor] : weights.tensors)
    if (name.starts_with("blocks."))
      depth = std::max(depth, 1 + std::min(std::strtol(name.c_str() + 7, nullptr, 10), 1L << 32));
  if (depth > int64_t(weights.tensors.size()))
    fail("import", file + ": block " + std::to_string(depth - 1) + " is there, but not all before it");
  return depth;
}

// The model takes floor(dim * ratio), which rounding may make one less than the hidden width.
double infer_mlp_ratio(int64_t hidden, int64_t dim) {
  const double ratio = double(hidden) / double(dim);
  return int64_t(double(dim) * ratio) == hidden ? ratio : (double(hidden) + 0.5) / double(dim);
}

int64_t infer_fan(Config& c, const TensorFile& weights, const std::string& file) {
  const auto shape_of = [&](const char* name, size_t dimensions) -> Shape {
    const auto it = weights.tensors.find(name);
    if (it == weights.tensors.end())
      fail("import", fmt::format("{}: not the weights of a FAN-ViT as published; missing is {}", file, name));
    if (it->second.ndim() != int64_t(dimensions) || it->second.numel() == 0)
      fail("import",
           fmt::format("{}: '{}' is {}, need {} dimensions", file, name, it->second.str(), dimensions));
    return it->second.shape();
  };
  const auto has = [&](const char* name) { return weights.tensors.contains(name); };
  if (has("blocks.0.mlp.fc1.weight") || has("blocks.0.downsample.proj.weight"))
    fail("import",
         file + ": of the published FANs, those with one width and channel attention can be imported");
  c.dim = shape_of("cls_token", 3)[2];
  c.channels = shape_of("patch_embed.proj.0.0.weight", 4)[1];
  c.patch = has("patch_embed.proj.6.0.weight") ? 16 : has("patch_embed.proj.4.0.weight") ? 8 : 4;
  if (c.image_size == 0) c.image_size = c.patch == 4 ? 32 : 224;
  const int64_t heads = shape_of("blocks.0.mlp.temperature", 3)[0];
  if (c.heads > 0 && c.heads != heads)
    fail("import", fmt::format("{}: --heads is {}, but the weights have {}", file, c.heads, heads));
  c.heads = heads;
  c.mlp_ratio = infer_mlp_ratio(shape_of("blocks.0.mlp.mlp_v.fc1.weight", 2)[0], c.dim);
  c.depth = infer_depth(weights, file);
  const nn::AttentionConfig first = nn::of_block(apps::attention_config(c), 0);
  if (nn::attention_kind(first.kind).traits.shares_queries == has("blocks.0.attn.q.weight"))
    fail("import",
         fmt::format("{}: block 0 has {} queries, which does not fit its attention, {}; give another "
                     "--attention, such as {}",
                     file, has("blocks.0.attn.q.weight") ? "its own" : "no", first.kind,
                     has("blocks.0.attn.q.weight") ? "softmax" : kinds_that_share_queries()));
  return shape_of("head.weight", 2)[0];
}

int64_t infer_transformer(Config& c, const TensorFile& weights, const std::string& file) {
  if (weights.tensors.contains("head_dist.weight"))
    fail("import",
         file +
             ": distilled vision transformers (with 'head_dist.weight') are not supported; give the weights "
             "of one without distillation");
  std::string missing;
  const auto shape_of = [&](const char* name) -> Shape {
    const auto it = weights.tensors.find(name);
    if (it != weights.tensors.end()) return it->second.shape();
    missing += (missing.empty() ? "" : ", ") + std::string(name);
    return {};
  };
  const Shape patch = shape_of("patch_embed.proj.weight"), positions = shape_of("pos_embed"),
              qkv = shape_of("blocks.0.attn.qkv.weight"), hidden = shape_of("blocks.0.mlp.fc1.weight"),
              head = shape_of("head.weight");
  if (!missing.empty())
    fail("import",
         file + ": not the weights of a vision transformer as timm names them; missing are " + missing);
  const auto need = [&](bool ok, const char* name, const Shape& got, const std::string& what) {
    if (!ok) fail("import", file + ": '" + name + "' is " + got.str() + ", need " + what);
  };

  need(patch.size() == 4 && patch[0] > 0 && (patch[1] == 1 || patch[1] == 3) && patch[2] > 0 &&
           patch[2] == patch[3],
       "patch_embed.proj.weight", patch, "[dim, 1 or 3 channels, patch, patch]");
  c.dim = patch[0];
  c.channels = patch[1];
  c.patch = patch[2];
  const std::string dim = std::to_string(c.dim);
  need(positions.size() == 3 && positions[0] == 1 && positions[2] == c.dim, "pos_embed", positions,
       "[1, tokens, " + dim + "]");
  const int64_t grid = std::llround(std::sqrt(double(positions[1] - 1)));
  need(grid > 0 && grid * grid + 1 == positions[1], "pos_embed", positions,
       "one class token and a square of patches");
  c.image_size = grid * c.patch;
  need(hidden.size() == 2 && hidden[0] > 0 && hidden[1] == c.dim, "blocks.0.mlp.fc1.weight", hidden,
       "[hidden, " + dim + "]");
  c.mlp_ratio = infer_mlp_ratio(hidden[0], c.dim);
  need(head.size() == 2 && head[0] > 0 && head[1] == c.dim, "head.weight", head, "[classes, " + dim + "]");

  const bool shares = nn::attention_kind(c.attention).traits.shares_queries;
  need(qkv.size() == 2 && qkv[0] == (shares ? 2 : 3) * c.dim && qkv[1] == c.dim, "blocks.0.attn.qkv.weight",
       qkv,
       fmt::format("[{}, {}] for --attention {}; {} rows per unit of width are {}", (shares ? 2 : 3) * c.dim,
                   dim, c.attention, shares ? 3 : 2,
                   shares ? "the kinds with queries (softmax)"
                          : "keys and values alone (" + kinds_that_share_queries() + ")"));
  if (c.heads <= 0) c.heads = std::max<int64_t>(1, c.dim / 64);
  c.depth = infer_depth(weights, file);
  return head[0];
}

}  // namespace

int64_t infer_model(Config& c, const TensorFile& weights, const std::string& file, bool model_given) {
  const Architecture found = architecture_of(weights);
  if (found != c.model && model_given)
    fail("import", fmt::format("{}: the weights are those of --model {}, not {}", file, choice_name(found),
                               choice_name(c.model)));
  c.model = found;
  c.attention = infer_attention(c.attention, weights, file);
  const auto infer = found == Architecture::vit        ? infer_transformer
                     : found == Architecture::fan_tiny ? infer_fan
                                                       : infer_resnet;
  return infer(c, weights, file);
}

}  // namespace pursuit::classify

#include "apps/training/vision_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/common/checks.h"

namespace pursuit::apps {

nn::VitConfig vit_config(const VisionFields& f) {
  nn::VitConfig v;
  v.patch = f.patch;
  v.dim = f.dim;
  v.depth = f.depth;
  v.heads = f.heads;
  v.mlp_ratio = f.mlp_ratio;
  v.ln_eps = f.ln_eps;
  v.dropout = f.dropout;
  v.drop_path = f.drop_path;
  v.iterated_layer = f.layer;
  v.attention = attention_config(f);
  return v;
}

nn::Init init(const VisionFields& f) { return f.init == "timm" ? nn::Init::timm : nn::Init::pytorch; }

void validate(const char* app, const VisionFields& f) {
  validate(app, static_cast<const AttentionFields&>(f));
  check_word(app, "init", f.init, {"timm", "pytorch"});
  check_range(app, "heads", f.heads, f.heads >= 1 && f.heads <= 65536, "1 to 65536");
  check_range(app, "dim", f.dim, f.dim >= 1 && f.dim <= 65536 && f.dim % f.heads == 0,
              "a multiple of --heads up to 65536");
  check_range(app, "depth", f.depth, f.depth >= 1 && f.depth <= 1000, "1 to 1000");
  check_range(app, "layer", f.layer, f.layer >= -1 && f.layer < f.depth, "-1 or the number of a block");
  check_range(app, "mlp-ratio", f.mlp_ratio, double(f.dim) * f.mlp_ratio >= 1 && f.mlp_ratio <= 64,
              "more than 1 / --dim and at most 64");
  check_range(app, "ln-eps", f.ln_eps, f.ln_eps > 0 && f.ln_eps < 1, "more than 0 and less than 1");
  check_range(app, "patch", f.patch, f.patch >= 0 && f.patch <= 4096, "0 to 4096");
  check_range(app, "workers", f.workers, f.workers >= 0 && f.workers <= max_threads, "0 to 1024");
  for (const auto& [name, value] : {std::pair{"limit", f.limit}, {"test-limit", f.test_limit}})
    check_range(app, name, value, value >= 0, "0 or more");
  check_range(app, "cache-mib", f.cache_mib, f.cache_mib >= 0 && f.cache_mib <= 1 << 30, "0 to 1073741824");
  for (const auto& [name, value] : {std::pair{"dropout", f.dropout}, {"drop-path", f.drop_path}})
    check_range(app, name, value, value >= 0 && value < 1, "0 up to, not including, 1");
  check_range(app, "flip", f.flip, f.flip >= 0 && f.flip <= 1, "0 to 1");
}

void check_statistics(const char* app, const std::vector<double>& mean, const std::vector<double>& std,
                      int64_t channels) {
  const auto finite = [](double v) { return std::isfinite(v); };
  if (int64_t(mean.size()) != channels || mean.size() != std.size() ||
      !std::all_of(mean.begin(), mean.end(), finite) ||
      !std::all_of(std.begin(), std.end(), [&](double s) { return s > 0 && finite(s); }))
    fail(app, fmt::format(
                  "got {} numbers of 'mean' and {} of 'std' for {} channels, need a finite one of each for a "
                  "channel, those of 'std' above 0",
                  mean.size(), std.size(), channels));
}

}  // namespace pursuit::apps

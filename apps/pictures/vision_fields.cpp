#include "apps/pictures/vision_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/command/checks.h"

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
  v.attention = attention_config(f);
  return v;
}

void validate(const char* app, const VisionFields& f) {
  validate(app, static_cast<const AttentionFields&>(f), f.depth);
  check_range(app, "dim", f.dim, f.dim % f.heads == 0, "a multiple of --heads");
  check_range(app, "mlp-ratio", f.mlp_ratio, double(f.dim) * f.mlp_ratio >= 1, "at least 1 / --dim");
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

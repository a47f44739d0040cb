#pragma once
#include <optional>
#include <string>

#include "nn/routing/lehd.h"
#include "nn/routing/pomo.h"

namespace pursuit::route {

enum class Kind { lehd, pomo };
inline std::vector<Choice<Kind>> choices_of(Kind) {
  return {{"lehd", Kind::lehd, "a heavy decoder, supervised"},
          {"pomo", Kind::pomo, "a heavy encoder, by reinforcement"}};
}

struct ModelConfig {
  Kind kind = Kind::lehd;
  nn::RoutingSizes sizes;
  int64_t layers = 6;
  bool depot = false;
};

// The one model of a run: LEHD or POMO.
class Model : public nn::Module {
 public:
  explicit Model(const ModelConfig& c) {
    if (c.kind == Kind::lehd)
      add_module("", lehd.emplace(nn::LehdConfig{c.sizes, c.layers, c.depot}));
    else
      add_module("", pomo.emplace(nn::PomoConfig{c.sizes, c.layers, c.depot}));
  }
  std::optional<nn::Lehd> lehd;
  std::optional<nn::Pomo> pomo;
};

}  // namespace pursuit::route

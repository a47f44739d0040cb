#pragma once
#include <cstdint>
#include <string>

#include "apps/study/loaded_model.h"
#include "data/image.h"
#include "data/split.h"
#include "engine/core/tensor.h"

namespace pursuit::apps {

struct InspectOptions {
  std::string checkpoint, data;  // data empty: the run's
  LoadOptions load;
  int64_t samples = 16, decomposed = 2;
  bool json = false;
};

struct InspectPicturesOptions : InspectOptions {
  data::Split split = data::Split::test;
};

// A picture for the film strip of L and S, and its input to the model.
struct Filmed {
  data::Image picture;
  Tensor input;
  int64_t rows = 0, cols = 0;  // of patches
  int64_t before = 1;          // tokens before the patches
};

}  // namespace pursuit::apps

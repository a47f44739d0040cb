#pragma once
#include <string>

#include "apps/study/quantize_command.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

// The folder of a run that the app's `quantize` makes of this one.
inline std::string quantised(const std::string& run, int (*quantize)(const apps::QuantizeOptions&)) {
  apps::QuantizeOptions options;
  options.checkpoint = run;
  options.out = path_of("quantised");
  options.samples = options.batch_size = 4;
  quantize(options);
  return options.out;
}

}  // namespace pursuit::fuzz

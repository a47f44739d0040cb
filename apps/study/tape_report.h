#pragma once
#include <functional>
#include <string>

#include "nn/module.h"

namespace pursuit::apps {

// Records one forward pass after a warm-up pass and prints calls, time and bytes held for backward of each
// operator. With `file` (.svg or .dot) also writes the graph. An .svg needs Graphviz; without it writes
// FILE.dot and prints how to convert it. Throws Error for another file name extension.
void report_tape(const std::function<Tensor()>& loss, const nn::Module& model, const std::string& file);

}  // namespace pursuit::apps

#pragma once
#include <vector>

#include "apps/classify/commands.h"

namespace pursuit::classify {

// The attacks that the options ask for, in order: every attack at each of its budgets; then, with
// --masking-check, what masking_notes() compares, at the largest of --budgets: APGD, Square, PGD, PGD with
// ten times as many steps, and PGD with the whole range of pixels. None is listed twice. Throws Error for an
// unknown attack, for options of attacks and budgets that no attack uses, and for --masking-check in the normalised
// space, where there is no whole range.
std::vector<attacks::Settings> attack_runs(const EvalOptions& options, const Config& config);

}  // namespace pursuit::classify

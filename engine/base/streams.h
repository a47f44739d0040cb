#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "engine/base/error.h"

// The map of random streams: which part of the program draws from which of the 2^64 Philox streams of a seed
// (engine/base/random.h). No two ranges overlap, so no two draws share a bit, whatever seeds training and
// evaluation use.
//
// Not listed: built-in images and texts. They draw from streams 0, 1, ... of fixed seeds (including 0), one
// stream per item, so that they are the same in every run.
namespace pursuit::streams {

// Incremented when training draws other numbers than before; stored in checkpoints. Version 1 had no map, and
// the noise of the first steps shared bits with the initial weights.
inline constexpr int version = 2;

// Streams `first` to `last`.
struct Range {
  const char* what;
  uint64_t first, last;
  constexpr uint64_t size() const { return last - first + 1; }
  constexpr uint64_t at(uint64_t i) const {
    if (i > last - first) fail("random streams", std::string(what) + " has no stream " + std::to_string(i));
    return first + i;
  }
};

constexpr uint64_t pow2(int n) { return uint64_t(1) << n; }

inline constexpr Range text{"generated text", 0, 0};                          // lm generate
inline constexpr Range weights{"initial weights", 1, pow2(20) - 1};           // one per parameter, in order
inline constexpr Range mixup{"mixup", pow2(40), pow2(41) - 1};                // one per step
inline constexpr Range routing{"routing instances", pow2(41), pow2(42) - 1};  // apps/route/instances.h
inline constexpr Range walks{"random walks", pow2(42),
                             pow2(43) - 1};  // nn/qk_matrix.h, first walk of a batch
inline constexpr Range masks{"masked words", pow2(50), pow2(51) - 1};         // epoch 2^32 + row
inline constexpr Range clicks{"clicks in training", pow2(54), pow2(55) - 1};  // step 2^20 + row of the batch
inline constexpr Range robot{"robot user", pow2(55), pow2(56) - 1};           // one per object
inline constexpr Range word_swap{"word swap", pow2(56), pow2(57) - 1};        // one per line
inline constexpr Range corruptions{"corruptions", pow2(57), pow2(57) + 255};  // 8 type + severity
inline constexpr Range attacks{"attacks", pow2(58), pow2(59) - 1};            // image 2^16 + one of `attack`
inline constexpr Range control{"control of inspections", pow2(59), pow2(60) - 1};  // one per layer and head
inline constexpr Range prompts{"prompts of pca", pow2(60), pow2(61) - 1};          // apps/pca/draws.h
inline constexpr Range noise{"noise of steps", pow2(61), pow2(62) - 1};     // step 2^20 + one of `step`
inline constexpr Range rows{"pictures of epochs", pow2(62), pow2(63) - 1};  // epoch 2^40 + position
inline constexpr Range order{"order of epochs", pow2(63), ~uint64_t(0)};    // epoch 2^40

// Streams within a step, counted from its first.
namespace step {
inline constexpr uint64_t count = pow2(20);
inline constexpr Range embedding{"dropout of embedded tokens", 0, 0};
inline constexpr Range erasing{"random erasing", 1, 1};
inline constexpr Range features{"dropout of final features", 2, 2};
// Block i uses branch 2 i for attention and 2 i + 1 for the MLP; decoder branches start at `decoder`.
inline constexpr Range drop_path{"drop path", pow2(16), 2 * pow2(16) - 1};
inline constexpr Range dropout{"dropout of branches", 2 * pow2(16), 3 * pow2(16) - 1};
inline constexpr Range attention{"dropout of attention's probabilities", 3 * pow2(16), 4 * pow2(16) - 1};
inline constexpr Range activation{"dropout of hidden units", 4 * pow2(16), 5 * pow2(16) - 1};
inline constexpr uint64_t decoder = pow2(15);
inline constexpr Range all[] = {embedding, erasing, features, drop_path, dropout, attention, activation};
}  // namespace step

// Streams within the attack on one image, counted from its first.
namespace attack {
inline constexpr uint64_t count = pow2(16);
inline constexpr Range start{"random start", 0, 0};
inline constexpr Range spsa_steps{"steps of spsa", 1, count - 1};
inline constexpr Range all[] = {start, spsa_steps};
}  // namespace attack

constexpr bool apart(std::span<const Range> ranges) {
  for (const Range& a : ranges)
    for (const Range& b : ranges)
      if (a.first > a.last || (a.first < b.first && b.first <= a.last) || (&a != &b && a.first == b.first))
        return false;
  return true;
}
inline constexpr Range all[] = {text,      weights,     mixup,   routing, walks,   masks, clicks, robot,
                                word_swap, corruptions, attacks, control, prompts, noise, rows,   order};
constexpr bool within(std::span<const Range> ranges, uint64_t count) {
  for (const Range& r : ranges)
    if (r.last >= count) return false;
  return true;
}
static_assert(apart(all));
static_assert(apart(step::all) && within(step::all, step::count));
static_assert(apart(attack::all) && within(attack::all, attack::count));

}  // namespace pursuit::streams

#pragma once

namespace pursuit::bench {

// What num_threads() threads of this CPU can do at most together. Multiply-adds count as two operations.
struct Peak {
  double f32 = 0;     // GFLOP/s of f32 multiply-adds in registers, by the instructions of rows<float>()
  double bf16 = 0;    // the same of bf16 factors by those of bf16_tiles(); 0 where products widen them to f32
  double memory = 0;  // GB/s, reading 256 MiB in order
};

// Measured anew by every call, 50 ms for each number: the best of five times of 10 ms.
Peak measure_peak();

// The larger of each number.
Peak larger(const Peak& a, const Peak& b);

}  // namespace pursuit::bench

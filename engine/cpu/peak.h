#pragma once

// What this machine can do at most, measured: beside it a benchmark's figures mean something.
namespace pursuit {

// Of num_threads() threads together. Multiply-adds count as two operations.
struct Peak {
  double f32 = 0;     // GFLOP/s of f32 multiply-adds in registers, by the instruction set of rows<float>()
  double bf16 = 0;    // the same of bf16 factors by vdpbf16ps; 0 where products of bf16 run otherwise
  double memory = 0;  // GB/s, reading 256 MiB in order
};

// The best of five times of 50 ms each, taken anew by every call: some 0.8 s.
Peak measure_peak();

}  // namespace pursuit

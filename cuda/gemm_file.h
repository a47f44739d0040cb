#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>

// The algorithms that cuBLASLt's products were timed to be fastest with, kept in a file between runs. The
// file has two lines of text, its kind and what it was made for, then a line for each product.
namespace pursuit::cuda {

struct GemmChoices {
  using Product = std::array<int64_t, 23>;    // sizes, strides, types and alignment
  using Algorithm = std::array<uint64_t, 8>;  // cublasLtMatmulAlgo_t, which one version of the library reads

  std::string made_for;  // GPU and version of the library
  std::map<Product, Algorithm> algorithms;
};

// Throws Error, which names the file and the line, if it holds anything else, or was made for another GPU or
// library than `made_for`.
GemmChoices read_gemm_choices(const std::string& path, const std::string& made_for);

// Replaces the file as a whole.
void write_gemm_choices(const std::string& path, const GemmChoices& choices);

}  // namespace pursuit::cuda

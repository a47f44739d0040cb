#include "engine/files/safetensors.h"

#include "engine/ops.h"
#include "tests/fuzz/tensor_file.h"

namespace pursuit::fuzz {

namespace {

void read(std::string_view input) { load_safetensors(write("file.safetensors", input)); }

std::vector<std::string> seeds() {
  const std::string path = path_of("seed.safetensors");
  const Tensor t = from_vector(std::vector<float>{1, -2, 3, 0.5f, 5, 6}, {2, 3});
  save_safetensors(
      path, {{"a", t}, {"b.weight", t.to(DType::bf16)}, {"c", t.to(DType::i64)}, {"none", zeros({0, 4})}},
      {{"format", "pt"}, {"config", R"({"dim":8,"depth":1})"}});
  return {read_file(path)};
}

}  // namespace

const Target target{.read = read, .split = split_tensor_file, .join = join_tensor_file, .seeds = seeds};

}  // namespace pursuit::fuzz

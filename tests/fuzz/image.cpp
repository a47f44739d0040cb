#include "data/image.h"

#include "tests/fuzz/png.h"

namespace pursuit::fuzz {

namespace {

void read(std::string_view input) {
  data::decode_image(reinterpret_cast<const uint8_t*>(input.data()), input.size(), "input");
}

std::vector<std::string> seeds() {
  data::Image picture(9, 5, 3);
  for (size_t i = 0; i < picture.pixels.size(); ++i) picture.pixels[i] = uint8_t(37 * i);
  std::vector<std::string> all;
  for (const auto& bytes : {data::encode_png(picture), data::encode_png(data::to_grey(picture)),
                            data::encode_jpeg(picture, 80), data::encode_jpeg(data::to_grey(picture), 30)})
    all.emplace_back(bytes.begin(), bytes.end());
  return all;
}

}  // namespace

const Target target{.read = read, .split = split_png, .join = join_png, .seeds = seeds};

}  // namespace pursuit::fuzz

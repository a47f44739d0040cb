#include "data/image.h"

#include "data/jpeg_turbo.h"
#include "data/orientation.h"
#include "engine/base/error.h"
#include "tests/fuzz/png.h"

namespace pursuit::fuzz {

namespace {

void read(std::string_view input) {
  const std::span bytes(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  const int orientation = data::orientation(bytes);
  for (const data::Decoder decoder : {data::Decoder::turbo, data::Decoder::stb}) {
    if (decoder == data::Decoder::turbo && !data::has_turbo()) continue;
    const auto choose = [](int width, int height) {
      return data::Part{{width / 3, height / 4, width - width / 3, (height + 1) / 2}, 2, 2};
    };
    try {
      data::decode_part(bytes.data(), bytes.size(), "input", {decoder, true}, choose);
    } catch (const Error&) {
    }
    data::upright(data::decode_image(bytes.data(), bytes.size(), "input", {decoder}), orientation);
  }
}

std::vector<std::string> seeds() {
  data::Image picture(9, 5, 3);
  for (size_t i = 0; i < picture.pixels.size(); ++i) picture.pixels[i] = uint8_t(37 * i);
  std::vector<std::string> all;
  for (const auto& bytes : {data::encode_png(picture), data::encode_png(data::to_grey(picture)),
                            data::encode_jpeg(picture, 80), data::encode_jpeg(data::to_grey(picture), 30)})
    all.emplace_back(bytes.begin(), bytes.end());
  // A JPEG with EXIF data: one entry, orientation 6.
  constexpr std::string_view exif(
      "\xff\xe1\0\x22"
      "Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0",
      36);
  all.push_back(all[2]);
  all.back().insert(2, exif);
  return all;
}

}  // namespace

const Target target{.read = read, .split = split_png, .join = join_png, .seeds = seeds};

}  // namespace pursuit::fuzz

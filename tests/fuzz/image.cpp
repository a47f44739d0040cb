#include "data/image.h"

#include <span>

#include "data/jpeg_turbo.h"
#include "data/orientation.h"
#include "engine/base/error.h"
#include "tests/fuzz/png.h"

namespace pursuit::fuzz {

namespace {

// Whether a JPEG's header promises many pixels. stb_image decodes them all, even where there is no data: half a
// minute under the sanitizers.
bool is_slow(std::span<const uint8_t> bytes) {
  constexpr int64_t megapixel = 1 << 20;
  for (size_t i = 0; i + 8 < bytes.size(); ++i) {
    if (bytes[i] != 0xff || bytes[i + 1] < 0xc0 || bytes[i + 1] > 0xc2) continue;
    const int height = bytes[i + 5] << 8 | bytes[i + 6], width = bytes[i + 7] << 8 | bytes[i + 8];
    const int64_t pixels = int64_t(width) * height;
    if (pixels > 4 * megapixel && pixels <= 64 * megapixel) return true;
  }
  return false;
}

// Every decoder sees every input that it does not take long for, whatever another says of it.
void read(std::string_view input) {
  const std::span bytes(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  const int orientation = data::orientation(bytes);
  const auto choose = [](int width, int height) {
    return data::Part{{width / 3, height / 4, width - width / 3, (height + 1) / 2}, 2, 2};
  };
  for (const data::Decoder decoder : {data::Decoder::turbo, data::Decoder::stb}) {
    if (decoder == data::Decoder::turbo ? !data::has_turbo() : is_slow(bytes)) continue;
    try {
      data::decode_part(bytes.data(), bytes.size(), "input", {decoder, true}, choose);
    } catch (const Error&) {
    }
    try {
      data::upright(data::decode_image(bytes.data(), bytes.size(), "input", {decoder}), orientation);
    } catch (const Error&) {
    }
  }
}

// JPEGs of libjpeg-turbo's encoder, of kinds that encode_jpeg does not write, in hexadecimal. All begin alike.
constexpr std::string_view kJpegBegin =
    "ffd8ffdb004300281c1e231e19282321232d2b28303c64413c37373c7b585d4964918099968f808c8aa0b4e6c3a0aadaad8a"
    "8cc8ffcbdaeef5ffffff9bc1fffffffaffe6fdfff8";
constexpr std::string_view kJpegs[] = {
    // 4:2:0, progressive
    "ffc20011080005000903012200021100031100ffc400160001010100000000000000000000000000010002ffda000c030100"
    "020003000000011a31ffc400161000030000000000000000000000000000001141ffda00080101000105028cffc400161000"
    "030000000000000000000000000000000341ffda0008010300013f01643fffc4001410010000000000000000000000000000"
    "0000ffda0008010200013f017fffc4001510010100000000000000000000000000001081ffda0008010100063f02a7ffc400"
    "191000010500000000000000000000000000000111314151ffda0008010100013f21b624071fffda000c0301000200030000"
    "00108bffc400171001000300000000000000000000000000010041f0ffda0008010300013f10486513ffc400181000020300"
    "0000000000000000000000000111002131ffda0008010200013f10d25da9ffc4001a10000202030000000000000000000000"
    "00001101317181c1ffda0008010100013f1055284a365d311fffd9",
    // 4:2:2
    "ffc00011080005001303012100021100031100ffc40017000003010000000000000000000000000000010203ffc400261000"
    "02010302040700000000000000000001021100123103211322a1d1414251617191b1ffda000c03010002000300003f007684"
    "2abe555ba3d73dbad4c72a4ef7996f7c77e9495a567120b7eed4136add9df1f66817ea738d5d44070aac60515a054000b71f"
    "1daaf82078cd7fffd9",
    // 4:4:4, a restart marker after every block
    "ffc00011080009000b03011100021100031100ffc40017000101010100000000000000000000000000030102ffc4002c1000"
    "0103010407090000000000000000000100021103213233b1122231415161813443717291a1b2c1f0ffdd00040001ffda000c"
    "03010002000300003f005d3a30207280387219c1407567711bb2b2c252f440da223f5b1e1c57ffd0c344bb5831e41de1a3ed"
    "34da2c73a0f2063d8c2d11025a1c4592ea907d17ffd19b3bbeb9054776babd106157e9f12bffd28bf16a79dd995cbef15dd3"
    "c36affd9",
    // CMYK
    "ffee000e41646f626500640000000000ffc000140800050009044311004d11005911004b1100ffc400170001010101000000"
    "00000000000000000002030104ffc40029100001020404040700000000000000000001021100031231132153d11523419242"
    "5191a1a2b2d2ffda000e0443004d0059004b00003f00d28c34cc406a52c08a6e321b7a5a08505cb5900a532881482ce6cf95"
    "b282899c9330874a520941b176b79355ec211472e5a85214b2c4b3f86aea6dd1a27863527770da2d5cfd6f82768e8e1e353e"
    "dfa85863527770da3fffd9",
    // YCCK, 4:2:0
    "ffee000e41646f626500640000000002ffc00014080005000904012200021100031100042200ffc400160001010100000000"
    "000000000000000000000201ffc400251000010302040701000000000000000000010002110312314153d113212342518191"
    "92ffda000e040100020003000400003f00d821ec932ea926e39627df35134f49bf4ee88a6a39cc8b49133825224b649327c2"
    "a2ce9d370b439e60989edbb338650ab86352b7e86c88bfffd9",
};

std::string bytes_of(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += char(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
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
  for (const std::string_view jpeg : kJpegs) all.push_back(bytes_of(kJpegBegin) + bytes_of(jpeg));
  return all;
}

}  // namespace

const Target target{.read = read, .split = split_png, .join = join_png, .seeds = seeds};

}  // namespace pursuit::fuzz

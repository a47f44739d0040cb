#include "data/jpeg_turbo.h"

#include "engine/base/error.h"

#ifdef PURSUIT_TURBO
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#endif

namespace pursuit::data {

namespace {

[[noreturn]] void fail_without_turbo() {
  fail(
      "jpeg",
      "the JPEG decoder is turbo, but this build has no libjpeg-turbo: install libjpeg62-turbo-dev and build "
      "again, or train with --jpeg-decoder stb");
}

}  // namespace

void check_decoder(const Decoding& decoding) {
  if (decoding.decoder == Decoder::turbo && !has_turbo()) fail_without_turbo();
}

#ifndef PURSUIT_TURBO

bool has_turbo() { return false; }

Image decode_turbo(const uint8_t*, size_t, const std::string&, bool, const ChoosePart&) {
  fail_without_turbo();
}

#else

namespace {

// Pixels beside a part that its outermost pixels' colours are interpolated from.
constexpr int kMargin = 4;

struct Jpeg {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  std::jmp_buf failed;
  char message[JMSG_LENGTH_MAX] = "";

  Jpeg() = default;
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;
  ~Jpeg() { jpeg_destroy_decompress(&info); }
};

[[noreturn]] void stop(j_common_ptr info) {
  Jpeg& jpeg = *static_cast<Jpeg*>(info->client_data);
  info->err->format_message(info, jpeg.message);
  std::longjmp(jpeg.failed, 1);
}

// libjpeg goes on with grey where data is missing or no code; that is damage here.
void warn(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  if (level < 0 && (code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_JPEG_EOF))
    stop(info);
}

// False if libjpeg stopped in `calls`. That is a jump, so nothing in `calls` may have a destructor; an
// exception would have to pass through C.
template <class F> bool attempt(Jpeg& jpeg, const F& calls) {
  if (setjmp(jpeg.failed)) return false;
  calls();
  return true;
}

// The box in a picture `by` times smaller, of width x height pixels.
Box reduced(const Box& box, int by, int width, int height) {
  const auto side = [by](int begin, int size, int whole, int& first, int& count) {
    first = std::min((begin + by / 2) / by, whole - 1);
    count = std::clamp((begin + size + by / 2) / by - first, 1, whole - first);
  };
  Box out;
  side(box.x, box.width, width, out.x, out.width);
  side(box.y, box.height, height, out.y, out.height);
  return out;
}

// CMYK as Adobe's programs store it, inverted.
void to_rgb(const uint8_t* cmyk, int count, uint8_t* rgb) {
  for (int i = 0; i < count; ++i)
    for (int c = 0; c < 3; ++c) rgb[3 * i + c] = uint8_t((cmyk[4 * i + c] * cmyk[4 * i + 3] + 127) / 255);
}

}  // namespace

bool has_turbo() { return true; }

Image decode_turbo(const uint8_t* bytes, size_t size, const std::string& name, bool scaled,
                   const ChoosePart& choose) {
  Jpeg jpeg;
  jpeg_decompress_struct& info = jpeg.info;
  const auto reject = [&](const char* what) {
    fail("decode_image", name + ": " + what + " (" + jpeg.message + "); the file is damaged");
  };
  info.err = jpeg_std_error(&jpeg.errors);
  jpeg.errors.error_exit = stop;
  jpeg.errors.emit_message = warn;
  info.client_data = &jpeg;
  if (!attempt(jpeg, [&] {
        jpeg_create_decompress(&info);
        jpeg_mem_src(&info, bytes, static_cast<unsigned long>(size));
        jpeg_read_header(&info, TRUE);
      }))
    reject("the header cannot be read");
  const int width = int(info.image_width), height = int(info.image_height);
  check_pixels(name, width, height);
  Part part{{0, 0, width, height}};
  if (choose) part = choose(width, height);
  check_part("decode_part", part.box, width, height);

  int by = 1;
  if (scaled && part.width > 0 && part.height > 0)
    while (by < 8 && part.box.width >= 2 * by * part.width && part.box.height >= 2 * by * part.height)
      by *= 2;
  const bool cmyk = info.num_components == 4;
  info.scale_num = 1;
  info.scale_denom = unsigned(by);
  info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  if (!attempt(jpeg, [&] { jpeg_start_decompress(&info); })) reject("cannot be decoded");

  const int reduced_width = int(info.output_width);
  const Box box = by == 1 ? part.box : reduced(part.box, by, reduced_width, int(info.output_height));
  JDIMENSION left = JDIMENSION(std::max(0, box.x - kMargin));
  JDIMENSION columns = JDIMENSION(std::min(reduced_width, box.x + box.width + kMargin)) - left;
  const int pixel = cmyk ? 4 : 3;
  // Rows at even addresses may be written past the cache, but this one is read at once.
  std::vector<uint8_t> buffer(size_t(reduced_width) * size_t(pixel) + 1);
  uint8_t* const row = buffer.data() + 1;
  Image out(box.width, box.height, 3);
  if (!attempt(jpeg, [&] {
        if (columns < info.output_width) jpeg_crop_scanline(&info, &left, &columns);
        if (box.y > 0) jpeg_skip_scanlines(&info, JDIMENSION(box.y));
        const bool direct = !cmyk && int(columns) == box.width;
        const uint8_t* const from = row + (box.x - int(left)) * pixel;
        for (int y = 0; y < box.height; ++y) {
          JSAMPROW to = direct ? out.at(0, y) : row;
          jpeg_read_scanlines(&info, &to, 1);
          if (cmyk)
            to_rgb(from, box.width, out.at(0, y));
          else if (!direct)
            std::memcpy(out.at(0, y), from, size_t(box.width) * 3);
        }
      }))
    reject("cannot be decoded");
  return out;
}

#endif

}  // namespace pursuit::data

#include "apps/segment/interactive/page/mask_png.h"

#include <spng.h>

#include <cstdlib>
#include <memory>

#include "engine/base/error.h"

namespace pursuit::segment::interactive {

std::string mask_png(const data::Image& mask) {
  std::vector<uint8_t> pixels(mask.pixels.size());
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = mask.pixels[i] == 1 ? 255 : 0;

  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> encoder(spng_ctx_new(SPNG_CTX_ENCODER), spng_ctx_free);
  spng_ihdr header{uint32_t(mask.width), uint32_t(mask.height), 8, SPNG_COLOR_TYPE_GRAYSCALE, 0, 0, 0};
  size_t size = 0;
  int error = !encoder;
  if (!error) error = spng_set_option(encoder.get(), SPNG_ENCODE_TO_BUFFER, 1);
  // Neighbouring rows of a mask are nearly alike.
  if (!error) error = spng_set_option(encoder.get(), SPNG_FILTER_CHOICE, SPNG_FILTER_CHOICE_UP);
  if (!error) error = spng_set_option(encoder.get(), SPNG_IMG_COMPRESSION_LEVEL, 1);
  if (!error) error = spng_set_ihdr(encoder.get(), &header);
  if (!error)
    error =
        spng_encode_image(encoder.get(), pixels.data(), pixels.size(), SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
  const std::unique_ptr<void, void (*)(void*)> png(
      error ? nullptr : spng_get_png_buffer(encoder.get(), &size, &error), std::free);
  if (!png) fail("serve", std::string("the mask cannot be written as a PNG: ") + spng_strerror(error));
  return {static_cast<const char*>(png.get()), size};
}

}  // namespace pursuit::segment::interactive

#include "data/image.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>

#include "data/jpeg_turbo.h"
#include "data/kernels.h"
#include "data/png.h"
#include "data/resize.h"
#include "engine/base/error.h"
#include "engine/files/atomic_file.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
// Zeros, so that a file with less data than it should have decodes to the same pixels every time.
#define STBI_MALLOC(size) std::calloc(1, size)
#define STBI_REALLOC(memory, size) std::realloc(memory, size)
#define STBI_FREE(memory) std::free(memory)
#define STBI_ONLY_JPEG
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS 65536
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>
#define STBI_WRITE_NO_STDIO
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>
#pragma GCC diagnostic pop

namespace pursuit::data {
namespace {

constexpr int64_t kMaxPixels = int64_t(64) << 20;

bool is_jpeg(const uint8_t* bytes, size_t size) {
  return size >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

// What the segments of a JPEG have defined so far. stb_image 2.27 writes out of bounds for a Huffman table with more
// than 256 codes, and uses tables and components that the file never defined. What adds a segment [p, end) returns
// what is wrong with it, or null.
class JpegState {
 public:
  const char* add_huffman(const uint8_t* p, const uint8_t* end) {
    constexpr int kLengths = 16;
    while (end - p > kLengths) {
      const int codes = std::accumulate(p + 1, p + 1 + kLengths, 0);
      if (codes > 256 || codes > end - p - 1 - kLengths) break;
      huffman_[size_t(p[0] >> 4)][size_t(p[0] & 15)] = true;
      p += 1 + kLengths + codes;
    }
    return p == end ? nullptr : "a Huffman table has too many codes";
  }

  const char* add_quantisation(const uint8_t* p, const uint8_t* end) {
    while (p < end) {
      const ptrdiff_t bytes = 1 + (p[0] >> 4 ? 128 : 64);
      if (bytes > end - p) return "a quantisation table is cut off";
      quantisation_[p[0] & 15] = true;
      p += bytes;
    }
    return nullptr;
  }

  const char* add_frame(const uint8_t* p, const uint8_t* end, bool progressive) {
    if (!components_.empty()) return "it has two frames";
    const ptrdiff_t count = end - p > 5 ? p[5] : 0;
    if (count == 0 || end - p < 6 + 3 * count) return "its frame is cut off";
    for (p += 6; ptrdiff_t(components_.size()) < count; p += 3) components_.push_back({p[0], p[2]});
    progressive_ = progressive;
    return nullptr;
  }

  // stb_image clears a component's coefficients in the first scan of its DC coefficients and refines them later.
  const char* add_scan(const uint8_t* p, const uint8_t* end) {
    const ptrdiff_t count = p < end ? *p : 0;
    if (end - p < 1 + 2 * count + 3) return "the header of a scan is cut off";
    const int first = p[1 + 2 * count], refines = p[1 + 2 * count + 2] >> 4;
    const bool dc = !progressive_ || (first == 0 && refines == 0), ac = !progressive_ || first > 0;
    for (ptrdiff_t i = 0; i < count; ++i) {
      const int id = p[1 + 2 * i], tables = p[2 + 2 * i];
      const auto component = std::find_if(components_.begin(), components_.end(),
                                          [id](const Component& c) { return c.id == id; });
      if (component == components_.end()) return "a scan has a component that its frame lacks";
      if ((dc && !huffman_[0][size_t(tables >> 4)]) || (ac && !huffman_[1][size_t(tables & 15)]))
        return "a scan uses a Huffman table that is not defined";
      if (!quantisation_[component->table]) return "a scan uses a quantisation table that is not defined";
      component->begun |= dc;
      if (!component->begun) return "a component has no scan before those that refine it";
    }
    return nullptr;
  }

  // What is wrong with a file that ends here, or null.
  const char* missing() const {
    for (const Component& c : components_)
      if (!c.begun) return "a component has no scan";
    return components_.empty() ? "it has no frame" : nullptr;
  }

  size_t components() const { return components_.size(); }

 private:
  struct Component {
    uint8_t id, table;
    bool begun = false;
  };

  std::vector<Component> components_;
  bool progressive_ = false;
  bool huffman_[16][16] = {};  // by class (0: DC, 1: AC) and number
  bool quantisation_[256] = {};
};

std::string unsupported(const std::string& what) {
  return "this kind of JPEG is not supported (" + what +
         "); convert it to RGB or grey with 8 bits a sample, baseline or progressive (Huffman coding)";
}

// The coding of a frame with that marker where not every decoder has it, otherwise null.
const char* rare_coding(int marker) {
  switch (marker) {
    case 0xc3:
    case 0xc7:
    case 0xcb:
    case 0xcf:
    case 0xf7:  // JPEG-LS
      return "lossless";
    case 0xc5:
    case 0xc6:
      return "hierarchical";
    case 0xc9:
    case 0xca:
    case 0xcd:
    case 0xce:
      return "arithmetic";
    default:
      return nullptr;
  }
}

// Checks the markers from the start to the end marker; returns why the file is refused, or "" if it is not.
// stb_image fills missing data with grey, so truncated files must be detected here, and every decoder must
// refuse what one of them refuses. Entropy-coded data contains no bare marker.
std::string jpeg_fault(const uint8_t* bytes, size_t size) {
  constexpr int kEndOfImage = 0xd9, kStartOfImage = 0xd8, kRestart0 = 0xd0, kRestart7 = 0xd7,
                kTemporary = 0x01;
  constexpr int kHuffmanTables = 0xc4, kQuantisationTables = 0xdb, kStartOfScan = 0xda, kBaseline = 0xc0,
                kProgressive = 0xc2, kAdobe = 0xee;
  constexpr int kCmyk = 0, kYcck = 2;
  constexpr int kMostScans = 500;  // encoders write about ten; each takes the time of the whole picture
  const auto damaged = [](const char* fault) { return std::string("damaged JPEG: ") + fault; };
  JpegState state;
  int scans = 0;
  int colours = -1;  // as an Adobe marker says
  for (size_t i = 2; i + 1 < size;) {
    const void* const next = std::memchr(bytes + i, 0xff, size - 1 - i);
    if (!next) break;
    i = size_t(static_cast<const uint8_t*>(next) - bytes);
    if (bytes[i + 1] == 0x00 || bytes[i + 1] == 0xff) {
      ++i;
      continue;
    }
    const int marker = bytes[i + 1];
    i += 2;
    if (marker == kEndOfImage) {
      const char* const fault = state.missing();
      return fault ? damaged(fault) : "";
    }
    if (marker == kTemporary || (marker >= kRestart0 && marker <= kRestart7) || marker == kStartOfImage)
      continue;
    const size_t length = i + 2 <= size ? size_t(bytes[i]) << 8 | bytes[i + 1] : size;
    if (length > size - i) break;
    if (length < 2) return damaged("a segment has no length");
    const uint8_t *const begin = bytes + i + 2, *const end = bytes + i + length;
    if (const char* const coding = rare_coding(marker)) return unsupported(std::string(coding) + " coding");
    if (marker == kAdobe && end - begin >= 12 && std::memcmp(begin, "Adobe", 6) == 0) colours = begin[11];
    const char* fault = nullptr;
    if (marker >= kBaseline && marker <= kProgressive) {
      if (begin < end && begin[0] == 12) return unsupported("12 bits a sample");
      fault = state.add_frame(begin, end, marker == kProgressive);
    } else if (marker == kHuffmanTables) {
      fault = state.add_huffman(begin, end);
    } else if (marker == kQuantisationTables) {
      fault = state.add_quantisation(begin, end);
    } else if (marker == kStartOfScan) {
      if (state.components() == 4 && colours != kCmyk && colours != kYcck)
        return unsupported("four components and no Adobe marker that says what they are");
      if (++scans > kMostScans) return unsupported("more than 500 scans");
      fault = state.add_scan(begin, end);
    }
    if (fault) return damaged(fault);
    i += length;
  }
  return "truncated JPEG: the end marker is missing; fetch the file again";
}

void append(void* context, void* data, int size) {
  auto& out = *static_cast<std::vector<uint8_t>*>(context);
  const auto* bytes = static_cast<const uint8_t*>(data);
  out.insert(out.end(), bytes, bytes + size);
}

void check_encodable(const Image& image, const char* where) {
  const bool shape = image.width > 0 && image.height > 0 && (image.channels == 1 || image.channels == 3);
  if (!shape || image.pixels.size() != size_t(image.width) * size_t(image.height) * size_t(image.channels))
    fail(where, "not a picture: got " + std::to_string(image.width) + " x " + std::to_string(image.height) +
                    " with " + std::to_string(image.channels) + " channels and " +
                    std::to_string(image.pixels.size()) + " bytes, need at least 1 x 1 with 1 or 3 channels");
}

// Checked before any decoder, which trusts some lengths in the file.
void check_file(const uint8_t* bytes, size_t size, const std::string& name) {
  constexpr const char* where = "decode_image";
  if (size == 0) fail(where, name + ": the file is empty");
  if (size > INT_MAX) fail(where, name + ": the file is larger than 2 GiB");
  if (is_png(bytes, size)) return;
  if (!is_jpeg(bytes, size)) fail(where, name + ": neither a JPEG nor a PNG file");
  if (const std::string fault = jpeg_fault(bytes, size); !fault.empty()) fail(where, name + ": " + fault);
}

Image decode_stb(const uint8_t* bytes, size_t size, const std::string& name) {
  constexpr const char* where = "decode_image";
  int width = 0, height = 0, channels = 0;
  if (!stbi_info_from_memory(bytes, int(size), &width, &height, &channels))
    fail(where, name + ": the header cannot be read (" + stbi_failure_reason() + "); the file is damaged");
  check_pixels(name, width, height);

  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(bytes, int(size), &width, &height, &channels, 3), std::free);
  if (!pixels) fail(where, name + ": cannot be decoded (" + stbi_failure_reason() + "); the file is damaged");
  Image image(width, height, 3);
  std::memcpy(image.pixels.data(), pixels.get(), image.pixels.size());
  return image;
}

}  // namespace

// Rejects sizes that are empty or too large.
void check_pixels(const std::string& name, int64_t width, int64_t height) {
  if (width < 1 || height < 1 || height > kMaxPixels / width)
    fail("decode_image", name + ": got " + std::to_string(width) + " x " + std::to_string(height) +
                             " pixels, need 1 to 64 megapixels; scale the picture down");
}

void check_part(const char* where, const Box& box, int width, int height) {
  const auto within = [](int begin, int size, int whole) {
    return begin >= 0 && size >= 1 && size <= whole - begin;
  };
  if (!within(box.x, box.width, width) || !within(box.y, box.height, height))
    fail(where, "part: got " + std::to_string(box.width) + " x " + std::to_string(box.height) + " from x " +
                    std::to_string(box.x) + ", y " + std::to_string(box.y) + ", need one within " +
                    std::to_string(width) + " x " + std::to_string(height));
}

Image decode_image(const uint8_t* bytes, size_t size, const std::string& name, const Decoding& decoding) {
  check_file(bytes, size, name);
  if (is_png(bytes, size)) return decode_png(bytes, size, name);
  return decoding.decoder == Decoder::turbo ? decode_turbo(bytes, size, name, false)
                                            : decode_stb(bytes, size, name);
}

Image decode_part(const uint8_t* bytes, size_t size, const std::string& name, const Decoding& decoding,
                  const ChoosePart& choose) {
  if (decoding.decoder == Decoder::turbo && !is_png(bytes, size)) {
    check_file(bytes, size, name);
    return decode_turbo(bytes, size, name, decoding.scaled, choose);
  }
  return part_of(decode_image(bytes, size, name, decoding), choose);
}

std::vector<uint8_t> read_bytes(const std::string& path) {
  const InputFile file(path);
  if (file.size() > INT_MAX) file.reject("is larger than 2 GiB");
  std::vector<uint8_t> bytes(file.size());
  file.read(0, bytes.data(), bytes.size());
  return bytes;
}

Image read_image(const std::string& path, const Decoding& decoding) {
  const std::vector<uint8_t> bytes = read_bytes(path);
  return decode_image(bytes.data(), bytes.size(), path, decoding);
}

std::vector<uint8_t> encode_png(const Image& image) {
  check_encodable(image, "encode_png");
  std::vector<uint8_t> out;
  if (!stbi_write_png_to_func(append, &out, image.width, image.height, image.channels, image.pixels.data(),
                              image.width * image.channels))
    fail("encode_png", "out of memory");
  return out;
}

std::vector<uint8_t> encode_jpeg(const Image& image, int quality) {
  check_encodable(image, "encode_jpeg");
  if (quality < 1 || quality > 100)
    fail("encode_jpeg", "quality: got " + std::to_string(quality) + ", need 1 to 100");
  if (image.width > 65535 || image.height > 65535)
    fail("encode_jpeg", "a side is longer than the 65535 pixels that JPEG can hold");
  std::vector<uint8_t> out;
  if (!stbi_write_jpg_to_func(append, &out, image.width, image.height, image.channels, image.pixels.data(),
                              quality))
    fail("encode_jpeg", "the encoder failed");
  return out;
}

void write_png(const std::string& path, const Image& image) {
  const std::vector<uint8_t> bytes = encode_png(image);
  AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

Image to_rgb(Image image) {
  if (image.channels == 3) return image;
  Image out(image.width, image.height, 3);
  for (size_t i = 0; i < image.pixels.size(); ++i) std::fill_n(&out.pixels[3 * i], 3, image.pixels[i]);
  return out;
}

Image to_grey(Image image) {
  if (image.channels == 1) return image;
  Image out(image.width, image.height, 1);
  picture_kernels().grey(image.pixels.data(), out.pixels.size(), out.pixels.data());
  return out;
}

}  // namespace pursuit::data

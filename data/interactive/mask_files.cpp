#include "data/interactive/mask_files.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

#include "data/files.h"
#include "data/interactive/bmp.h"
#include "data/png.h"
#include "engine/base/error.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* where = "objects";

bool is_bmp_file(const std::string& name) {
  std::string ending = fs::path(name).extension().string();
  for (char& c : ending) c = char(std::tolower(static_cast<unsigned char>(c)));
  return ending == ".bmp";
}

// The pictures of a folder whose stems have this ending: paths, keyed by the stem without it.
std::map<std::string, std::string> files_by_stem(const fs::path& folder, const std::string& ending) {
  std::map<std::string, std::string> files;
  for (const std::string& name : list_folder(folder.string()).files) {
    std::string stem = fs::path(name).stem().string();
    if (!(is_image_file(name) || is_bmp_file(name)) || !stem.ends_with(ending)) continue;
    stem.resize(stem.size() - ending.size());
    const auto [known, added] = files.emplace(stem, (folder / name).string());
    if (!added)
      fail(where,
           (folder / name).string() + " has the same name as " + known->second + ": keep one of the two");
  }
  return files;
}

struct Mask {
  std::string number, path;  // "#2", or empty for the only mask of a picture
};

// "#2" before "#10"
bool before(const Mask& a, const Mask& b) {
  return a.number.size() != b.number.size() ? a.number.size() < b.number.size() : a.number < b.number;
}

}  // namespace

Image read_mask(const std::string& path) {
  const std::vector<uint8_t> bytes = read_bytes(path);
  const bool bmp = is_bmp(bytes);
  const PngKind kind = bmp ? PngKind::rgb : png_kind(bytes, path);
  if (kind == PngKind::grey) return decode_index_png(bytes, path);
  const Image picture = bmp ? decode_bmp(bytes, path) : decode_png(bytes.data(), bytes.size(), path);
  Image levels(picture.width, picture.height, 1);
  for (size_t i = 0; i < levels.pixels.size(); ++i) {
    const uint8_t* const rgb = &picture.pixels[3 * i];
    levels.pixels[i] = rgb[0];
    if (rgb[0] == rgb[1] && rgb[0] == rgb[2]) continue;
    if (kind == PngKind::palette) return decode_index_png(bytes, path);
    const size_t width = size_t(picture.width);
    fail(where, path + ": the pixel at x " + std::to_string(i % width) + ", y " + std::to_string(i / width) +
                    " has the colour " + std::to_string(rgb[0]) + " " + std::to_string(rgb[1]) + " " +
                    std::to_string(rgb[2]) + ", but masks are grey: convert it to a grey PNG");
  }
  return levels;
}

ObjectMap objects_of(const Image& mask, const std::array<int32_t, 256>& number_of) {
  ObjectMap map{mask.width, mask.height, std::vector<int32_t>(mask.pixels.size())};
  for (size_t p = 0; p < mask.pixels.size(); ++p) map.of_pixel[p] = number_of[mask.pixels[p]];
  return map;
}

void add_masks(const MaskLayout& layout, bool skip_bad, ObjectPictures& to) {
  const auto images = files_by_stem(layout.images, layout.image_ending),
             masks = files_by_stem(layout.masks, layout.mask_ending);
  std::map<std::string, std::vector<Mask>> masks_of;  // by the picture's stem
  for (const auto& [stem, path] : masks) {
    const size_t number = images.count(stem) ? stem.size() : std::min(stem.rfind('#'), stem.size());
    const std::string picture = stem.substr(0, number);
    if (images.count(picture)) {
      masks_of[picture].push_back({stem.substr(number), path});
    } else if (skip_bad) {
      ++to.incomplete;
    } else {
      fail(where, path + " has no picture: need " + layout.images + "/" + picture + layout.image_ending +
                      ".jpg, or skip bad data");
    }
  }
  for (const auto& [stem, image] : images) {
    std::vector<Mask>& of_image = masks_of[stem];
    if (of_image.empty()) {
      if (!skip_bad)
        fail(where, image + " has no mask: need " + layout.masks + "/" + stem + layout.mask_ending +
                        ".png, or skip bad data");
      ++to.incomplete;
    }
    std::sort(of_image.begin(), of_image.end(), before);
    for (const Mask& mask : of_image) to.pictures.push_back({image, mask.path, image + mask.number});
  }
}

void refuse_training(const std::string& path, Split split) {
  if (split == Split::train)
    fail(where, path + " holds objects to be evaluated on and no split train: open it for val or test");
}

}  // namespace pursuit::data

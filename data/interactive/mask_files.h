#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "data/interactive/object_files.h"

// Masks of objects that are files beside their pictures.
namespace pursuit::data {

// Reads a mask, a PNG or BMP, in one channel: the levels of a grey one. Colours have to be grey; where those
// of a PNG's palette are not, its numbers count. Throws Error that names the file.
Image read_mask(const std::string& path);

// The objects of a mask: number_of[v] is the number of those pixels that have the value v.
ObjectMap objects_of(const Image& mask, const std::array<int32_t, 256>& number_of);

// Where pictures and masks are, and what their names end in before the extension: NAME_in.png, NAME_gt.png.
struct MaskLayout {
  std::string images, masks;  // folders
  std::string image_ending = {}, mask_ending = {};
};

// Appends the pictures with their masks, sorted by stem: every mask of the name STEM, STEM#1, STEM#2, ... is
// an entry of its own, with the object's name. Without skip_bad a missing partner is an Error.
void add_masks(const MaskLayout& layout, bool skip_bad, ObjectPictures& to);

// Throws Error for the split train, which a set for evaluation does not have.
void refuse_training(const std::string& path, Split split);

}  // namespace pursuit::data

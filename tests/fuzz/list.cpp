#include "data/segmentation.h"
#include "engine/base/error.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

namespace {

// train.txt of a CamVid folder, or objectInfo150.txt of an ADE20K folder; the pictures' bytes do not matter.
void read(std::string_view input) {
  static const bool made = [] {
    for (const char* picture : {"train/a.png", "trainannot/a.png", "train/b.jpg", "trainannot/b.png",
                                "images/training/a.jpg", "annotations/training/a.png"})
      write(std::string("set/") + picture, "");
    return true;
  }();
  (void)made;
  const std::string folder = write_folder("set", input);
  for (const char* format : {"camvid", "ade20k"}) try {
      data::open_segmentation(folder, data::Split::train, {.format = format});
    } catch (const Error&) {
    }
}

}  // namespace

const Target target{.read = read, .split = split_files, .join = join_files};

}  // namespace pursuit::fuzz

#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/image.h"
#include "data/label_key.h"

namespace pursuit::data {

// A picture whose every pixel has a label.
struct SegmentationSample {
  Image image;   // RGB
  Image labels;  // of the same size, one channel: the pixel's class, or kIgnoredLabel
  // The sample's number in the whole set, whatever part of it is in use, or -1 if another one stands in for a
  // damaged one.
  int64_t index = 0;
};

// Pictures with label maps, numbered 0 .. size()-1. All functions may be called from several threads at once.
class SegmentationDataset {
 public:
  virtual ~SegmentationDataset() = default;
  virtual int64_t size() const = 0;
  virtual SegmentationSample get(int64_t i) const = 0;
  virtual std::string name(int64_t i) const = 0;        // for messages: a file path, or "scene-train#12"
  virtual std::string label_file(int64_t i) const = 0;  // path of sample i's label map; empty: there is none
  virtual std::string split() const = 0;                // that the samples are of: "train", "val" or "test"
  virtual const std::vector<std::string>& classes() const = 0;
  virtual const std::vector<Rgb>& colours() const = 0;  // of the classes, for pictures of label maps
  // Damaged or incomplete pairs met so far; stays 0 without SegmentationOptions::skip_bad.
  virtual int64_t skipped() const { return 0; }
};

inline const std::vector<std::string> segmentation_formats = {"auto",       "ade20k", "camvid",
                                                              "coco_stuff", "folder", "scenes"};

struct SegmentationOptions {
  std::string format = "auto";
  int64_t first = 0;  // keep the first this many samples; 0 keeps all
  int64_t limit = 0;  // of those keep this many, evenly spaced (scenes: the first); 0 keeps all
  // Instead of an error, a picture without label map (or the reverse) is left out, and the next good pair in
  // order (the first follows the last) stands in for a damaged one.
  bool skip_bad = false;
  // Keep decoded pairs in memory until this many bytes are used; those beyond are decoded each time.
  int64_t cache_bytes = 0;
};

// Opens one split ("train", "val" or "test") of the data at `path`; an empty path is the drawn scenes. A set
// that has only one of val and test gives it for both; split() says which. "auto" looks at what the folder
// holds:
//   ade20k      images/{training,validation}, annotations/{training,validation}, objectInfo150.txt; value 0
//               is ignored, 1 to 150 are the classes
//   camvid      train, trainannot, val, valannot, test, testannot; train.txt, val.txt, test.txt list the
//               pictures (only the names' stems count). Eleven classes, value 11 is ignored
//   coco_stuff  {train,val}_img, {train,val}_label; 182 classes, named by number or by classes.txt
//   folder      images, labels and classes.txt (see read_class_file). Splits are folders images/train,
//               labels/train and so on; where there are none, every tenth picture is held out for val
// A label map is the PNG with its picture's stem. Throws pursuit::Error that names the file or folder if the
// layout or the partners do not fit, or if the scenes are asked for beside a path; get() throws if a file is
// damaged, the two sizes differ or a label has no meaning. Pixels are as stored: a picture whose EXIF data
// says to turn it is named on stderr, once.
std::unique_ptr<SegmentationDataset> open_segmentation(const std::string& path, const std::string& split,
                                                       const SegmentationOptions& options = {});

// Overlapping figures (circle, square, ...) on a textured ground, drawn when asked for; the labels are exact.
// 2000 scenes for train, 200 others for val, 200 for test (no other name is given here), or `size` of them.
std::unique_ptr<SegmentationDataset> open_scenes(const std::string& split, int64_t size = 0, int width = 128,
                                                 int height = 96, uint64_t seed = 0);

}  // namespace pursuit::data

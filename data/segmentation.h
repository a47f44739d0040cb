#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/format.h"
#include "data/image.h"
#include "data/label_key.h"

namespace pursuit::data {

// An image with a label for every pixel.
struct SegmentationSample {
  Image image;   // RGB
  Image labels;  // same size, one channel: the pixel's class, or kIgnoredLabel
  // The sample's index in the whole set, whatever part is in use, or -1 if another one replaces a damaged
  // one.
  int64_t index = 0;
};

// Images with label maps, 0 .. size()-1. All methods are thread-safe.
class SegmentationDataset {
 public:
  virtual ~SegmentationDataset() = default;
  virtual int64_t size() const = 0;
  virtual SegmentationSample get(int64_t i) const = 0;
  // Sample i's labels alone; sets of files do not read the picture. Throws Error if they are damaged, with
  // skip_bad too.
  virtual Image labels(int64_t i) const { return get(i).labels; }
  virtual std::string name(int64_t i) const = 0;        // for messages: a file path, or "scene-train#12"
  virtual std::string label_file(int64_t i) const = 0;  // path of sample i's label map; empty: none
  virtual Split split() const = 0;                      // of the samples
  virtual const std::vector<std::string>& classes() const = 0;
  virtual const std::vector<Rgb>& colours() const = 0;  // per class, for drawing label maps
  // Damaged or incomplete pairs so far; stays 0 without SegmentationOptions::skip_bad.
  virtual int64_t skipped() const { return 0; }
};

struct SegmentationOptions {
  std::string format = "auto";
  int64_t first = 0;        // keep only the first samples; 0: all
  int64_t limit = 0;        // of those keep this many, evenly spaced (scenes: the first); 0: all
  CorruptedPart part = {};  // corrupted: the part to open
  // Do not fail on an image without label map (or the reverse) but leave it out, and replace a damaged pair
  // by the next good one (after the last comes the first).
  bool skip_bad = false;
  Decoding decoding = {};  // of the images
  // Cache decoded pairs up to this many bytes; others are decoded each time.
  int64_t cache_bytes = 0;
};

using SegmentationFormats = Formats<SegmentationDataset, SegmentationOptions>;

// Opens one split of the data at `path`; an empty path is the drawn scenes.
// A set with only one of val and test uses it for both; split() tells which. "auto" detects the
// layout:
//   ade20k      images/{training,validation}, annotations/{training,validation}, objectInfo150.txt; value 0
//               is ignored, 1 to 150 are the classes
//   camvid      train, trainannot, val, valannot, test, testannot; train.txt, val.txt, test.txt list the
//               pictures (only the names' stems count). Eleven classes, value 11 is ignored
//   coco_stuff  {train,val}_img, {train,val}_label; 182 classes, named by number or by classes.txt
//   folder      images, labels and classes.txt (see read_class_file). Splits are folders images/train,
//               labels/train and so on; where there are none, every tenth picture is held out for val
//   corrupted   fog/3 and other corruptions and severities, each with the layout of another format
// A label map is a PNG with its image's stem. Throws pursuit::Error that names the file or folder if the
// layout does not fit or files have no partner, or if both a path and the scenes are given; get() throws if a
// file is damaged, the sizes differ or a label is unknown. Pixels are used as stored; an image whose EXIF
// data says to turn it is reported on stderr, once.
std::unique_ptr<SegmentationDataset> open_segmentation(const std::string& path, Split split,
                                                       const SegmentationOptions& options = {});

// Overlapping figures (circle, square, ...) on a textured background, drawn on demand; the labels are exact.
// 2000 scenes for train, 200 others for val, 200 for test, or `size` of them.
std::unique_ptr<SegmentationDataset> open_scenes(Split split, int64_t size = 0, int width = 128,
                                                 int height = 96, uint64_t seed = 0);

}  // namespace pursuit::data

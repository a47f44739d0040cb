#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "data/segmentation.h"

// Pictures with one object each, for segmentation by clicks. Such a set is a SegmentationDataset with the
// classes "background" and "object": its labels are 1 in the object, 0 elsewhere and kIgnoredLabel where
// nothing is counted. The samples of a picture with several objects follow each other.
namespace pursuit::data {

struct ObjectOptions {
  std::string format = "auto";
  int64_t first = 0;  // keep only the first objects; 0: all
  int64_t limit = 0;  // of those keep this many, evenly spaced (materials: the first); 0: all
  // Do not fail on a picture without mask (or the reverse) or on a damaged mask but leave it out, and replace
  // an object with a damaged picture by the next good one (after the last comes the first).
  bool skip_bad = false;
  Decoding decoding = {};  // of the pictures
  // Cache decoded pictures with their masks up to this many bytes; others are decoded each time.
  int64_t cache_bytes = 0;
  int64_t least_area = 400;    // pixels of the smallest object; not of drawn scenes
  int64_t most_a_picture = 3;  // camvid, ade20k, folder: keep this many objects of a picture, the largest
  double noise = 0;            // materials: see open_material_scenes
};

using ObjectFormats = Formats<SegmentationDataset, ObjectOptions>;

// Opens the objects of one split of the data at `path`; an empty path is the drawn scenes. "auto" detects the
// layout:
//   camvid, ade20k, folder
//               as open_segmentation reads them; an object is a connected component (see components) of one
//               class
//   coco_stuff  {train,val}_img, _label and _inst, maps of instances as SPADE writes them: an object is the
//               pixels of one class, a thing (0 to 90), and one instance. Where there is no instance, the map
//               keeps the class; such pixels cannot be told from an instance of that number and count as one
//   davis       JPEGImages/480p/SEQUENCE, Annotations/480p/SEQUENCE; every number but 0 is an object
//   masks       one mask an object: folders images and masks, img and gt, or data_GT and boundary_GT, or
//               NAME_in.png with NAME_gt.png. A mask is STEM.png, or STEM#1.png, STEM#2.png, ... for several
//               objects of a picture. Its levels are 0 background, 128 not counted, every other the object.
//               BMPs are read too
// In the labels of an object all others of its picture are background, as is what has fewer than least_area
// pixels. name(i) is the picture's path with "#1" for its largest object, "#2" for the next one (of equal
// ones the first in raster order; davis: of the lower number); of masks, with the mask's own "#1" or nothing.
// A set with only one of val and test uses it for both; split() tells which. davis and masks are test sets
// and have no split train. Opening reads the masks, not the pictures. Throws pursuit::Error that names the
// file or folder if the layout does not fit, files have no partner, a mask is damaged or no object is left;
// get() throws if a file is damaged or if picture and mask differ in size.
std::unique_ptr<SegmentationDataset> open_objects(const std::string& path, Split split,
                                                  const ObjectOptions& options = {});

// Scenes of 32 x 32 pixels: four to eight regions with wavy borders, painted with three to five materials (a
// colour and a wave), under a linear light. Normal noise of standard deviation 0.08 (1: the range of a pixel)
// and independent noise of `noise` are added. The object is all regions of one material that covers 5 to 60 %
// of the picture. Drawn on demand, 2000 scenes for train, 200 others for val, 200 for test, or `size` of
// them. The noise does not change the scenes.
std::unique_ptr<SegmentationDataset> open_material_scenes(Split split, int64_t size = 0, double noise = 0,
                                                          uint64_t seed = 0);

}  // namespace pursuit::data

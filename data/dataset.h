#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/files.h"
#include "data/format.h"
#include "data/image.h"

namespace pursuit::data {

struct Sample {
  Image image;
  int64_t label = 0;
  // The image's index in the whole set, whatever part is in use, or -1 if another image replaces a damaged
  // one.
  int64_t index = 0;
};

// What fingerprint() takes of a sample that is no file of its own.
struct SampleId {
  std::string name;
  int64_t number;  // its size in bytes, or a checksum
};

// Labelled images 0 .. size()-1. All methods are thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual Sample get(int64_t i) const = 0;
  // The part of the image that `choose` names, by default cut out of the whole; see decode_part. `choose` may
  // be called again, for the image that replaces a damaged one.
  virtual Sample get_part(int64_t i, const ChoosePart& choose) const;
  virtual int64_t label(int64_t i) const = 0;
  // For messages and lists of predictions: a file path, or "train-images-idx3-ubyte.gz#123".
  virtual std::string name(int64_t i) const = 0;
  // By default the sample is found by its name: a file, or one of many in a file.
  virtual std::optional<SampleId> id(int64_t) const { return {}; }
  virtual const std::vector<std::string>& classes() const = 0;
  // The classes that occur, ascending: for a folder, those with a subfolder; otherwise all.
  virtual std::vector<int64_t> present_classes() const;
  // The set's name of its test split: "test", "val"; empty if the folder is a split itself.
  virtual std::string test_split() const { return "test"; }
  // Damaged images so far plus empty class folders; stays 0 without DatasetOptions::skip_bad.
  virtual int64_t skipped() const { return 0; }
};

struct DatasetOptions {
  std::string format = "auto";
  int64_t first = 0;        // keep only the first samples; 0: all
  int64_t limit = 0;        // of those keep this many, evenly spaced; 0: all
  CorruptedPart part = {};  // imagenet-c, cifar10-c: the part to open

  // cifar10: the files of a split, as names inside the folder. By default training uses every
  // data_batch_*.bin and testing every test_batch*.bin, except those named for the other split.
  std::vector<std::string> train_files = {}, test_files = {};

  // folder, shards: do not fail on a damaged image but replace it with the next good one (after the last comes
  // the first), and ignore empty class folders (the class keeps its label).
  bool skip_bad = false;
  // folder, shards: class names in label order, e.g. of a trained model. Default: those of the train split.
  std::vector<std::string> classes = {};
  // folder, shards of files: how JPEGs are decoded. Parts by libjpeg-turbo are neither prepared nor cached.
  Decoding decoding = {};
  // folder, shards of files: called on each image that is decoded as a whole, e.g. to resize the shorter side.
  std::function<Image(Image)> prepare = {};
  // folder, shards of files: cache images in memory up to this many bytes. Others are decoded each time.
  // Nothing is evicted: an epoch visits every image once and would evict each before its next
  // use.
  int64_t cache_bytes = 0;

  int synthetic_size = 32;  // synthetic: width and height in pixels
  uint64_t synthetic_seed = 0;
};

using DatasetFormats = Formats<Dataset, DatasetOptions>;

// Opens the data at `path`; an empty path is the synthetic set. "auto" detects the format of the folder.
// Split::val is the held-out part, as test is. Throws pursuit::Error that names the file if the folder has no
// known format or a file is damaged, or if both a path and the synthetic set are given.
std::unique_ptr<Dataset> open_dataset(const std::string& path, Split split,
                                      const DatasetOptions& options = {});

// MNIST and similar sets: [prefix]train-images-idx3-ubyte, ...-labels-idx1-ubyte, and t10k- or test- for the
// test split, optionally gzipped. Ten classes "0" to "9", or the lines of classes.txt in the same folder.
// Grey images. Throws if headers, lengths, counts or labels are inconsistent.
std::unique_ptr<Dataset> open_idx(const std::string& path, Split split);

// CIFAR-10's binary version: records of 3073 bytes, label first, then 32 x 32 red, green and blue planes.
// Class names from batches.meta.txt if present. Throws on a partial record or a label above 9.
std::unique_ptr<Dataset> open_cifar10(const std::string& path, Split split, const DatasetOptions& options);

// ImageNet's layout: path/train/<class>/*.jpg and path/val/<class>/*.jpg (or path/test). Reads jpg, jpeg and
// png (any case), including visible subfolders of a class and links to folders. Labels follow the sorted
// class names of the train split, for both splits. The test split may also be a folder of class folders
// itself (as ImageNet-A, -R, -O and -Sketch are published); if none of them is named as a class, but all by
// the number of one (ImageNet-V2), they are taken by number. Throws on a class that the train split (or
// options.classes) lacks, on an empty class folder, and on a link to a folder that contains it; get() throws
// on a damaged image.
std::unique_ptr<Dataset> open_image_folder(const std::string& path, Split split,
                                           const DatasetOptions& options);

// The part of a training set that trains, or for Split::val the part that is held out for validation: `count`
// samples, evenly spaced. Throws Error unless there are more than `count`.
std::unique_ptr<Dataset> part_of_training(std::unique_ptr<Dataset> training, Split split, int64_t count);

// CIFAR-10's class names in the order of its labels.
const std::vector<std::string>& cifar10_classes();

// The samples of a data set with these numbers. They keep their indices.
std::unique_ptr<Dataset> subset(std::unique_ptr<Dataset> whole, std::vector<int64_t> numbers);

// Ten kinds of shapes (circle, square, triangle, ...) with random position, size, rotation and colours on a
// noisy background, drawn on demand: 20000 for training, 2000 others for testing. Needs no files.
std::unique_ptr<Dataset> open_synthetic(Split split, int size = 32, uint64_t seed = 0);

// The sample indices selected by the options `first` and `limit` from a set of `size`.
std::vector<int64_t> samples_in_use(int64_t size, int64_t first, int64_t limit);

}  // namespace pursuit::data

#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/image.h"

namespace pursuit::data {

enum class Split { train, test };

struct Sample {
  Image image;
  int64_t label = 0;
  // The picture's number in the whole set, whatever part of it is in use, or -1 if another one stands in for
  // a damaged one.
  int64_t index = 0;
};

// Labelled pictures numbered 0 .. size()-1. All functions may be called from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual Sample get(int64_t i) const = 0;
  virtual int64_t label(int64_t i) const = 0;
  // For messages and prediction lists: a file path, or "train-images-idx3-ubyte.gz#123".
  virtual std::string name(int64_t i) const = 0;
  virtual const std::vector<std::string>& classes() const = 0;
  // Numbers of those that the set is about, rising: of a folder, those it has a folder for; all otherwise.
  virtual std::vector<int64_t> present_classes() const;
  // What the set calls the part that is tested on: "test", "val"; empty where a folder is no part of another.
  virtual std::string test_split() const { return "test"; }
  // Damaged pictures met so far plus empty class folders; stays 0 without DatasetOptions::skip_bad.
  virtual int64_t skipped() const { return 0; }
};

inline const std::vector<std::string> dataset_formats = {"auto", "idx", "cifar10", "folder", "synthetic"};

struct DatasetOptions {
  std::string format = "auto";
  int64_t first = 0;  // keep the first this many samples; 0 keeps all
  int64_t limit = 0;  // of those keep this many, evenly spaced; 0 keeps all

  // cifar10: which files make up a split, as names inside the folder. Left empty, training takes every
  // data_batch_*.bin and testing every test_batch*.bin, except those named for the other split.
  std::vector<std::string> train_files = {}, test_files = {};

  // folder: instead of an error, the next good picture in order (the first follows the last) stands in for a
  // damaged one, and an empty class folder is passed over (its class keeps its label).
  bool skip_bad = false;
  // folder: class names in label order, for instance a trained model's. Left empty, those of the train split.
  std::vector<std::string> classes = {};
  // folder: called once on each decoded picture, before it is cached; for instance to resize the shorter
  // side.
  std::function<Image(Image)> prepare = {};
  // folder: keep pictures in memory until this many bytes are used. Pictures beyond that are decoded each
  // time; nothing is evicted, because an epoch visits every picture once and would evict each before its next
  // use.
  int64_t cache_bytes = 0;

  int synthetic_size = 32;  // synthetic: width and height in pixels
  uint64_t synthetic_seed = 0;
};

// Opens the data at `path`; an empty path is the synthetic set. "auto" looks at what the folder holds.
// Throws pursuit::Error that names the file if the folder fits no layout or a file in it is damaged, or if
// the synthetic set is asked for beside a path.
std::unique_ptr<Dataset> open_dataset(const std::string& path, Split split,
                                      const DatasetOptions& options = {});

// MNIST and its relatives: [prefix]train-images-idx3-ubyte, ...-labels-idx1-ubyte, and t10k- or test- for the
// test split, gzipped or not. Ten classes "0" to "9", or the lines of classes.txt beside the files.
// Grey pictures. Throws if headers, lengths, counts or labels do not agree.
std::unique_ptr<Dataset> open_idx(const std::string& path, Split split);

// CIFAR-10's binary version: files of 3073-byte records, label first, then 32 x 32 red, green, blue planes.
// Class names from batches.meta.txt if it is there. Throws on a partial record or a label above 9.
std::unique_ptr<Dataset> open_cifar10(const std::string& path, Split split, const DatasetOptions& options);

// ImageNet's layout: path/train/<class>/*.jpg and path/val/<class>/*.jpg (or path/test). Endings jpg, jpeg,
// png in any case; visible subfolders of a class, and links to folders, included. Labels follow the sorted
// class names of the train split, for both splits. The test split may also be a folder of class folders
// itself. Throws on a class the train split (or options.classes) does not have, on an empty class folder and
// on a link to a folder that holds it; get() throws on a damaged picture.
std::unique_ptr<Dataset> open_image_folder(const std::string& path, Split split,
                                           const DatasetOptions& options);

// Ten kinds of shapes (circle, square, triangle, ...) of random place, size, turn and colours on a noisy
// background, drawn when asked for: 20000 for training, 2000 others for testing. Needs no file.
std::unique_ptr<Dataset> open_synthetic(Split split, int size = 32, uint64_t seed = 0);

// The numbers of the samples of a set of `size` that are in use with the two options of the same names.
std::vector<int64_t> samples_in_use(int64_t size, int64_t first, int64_t limit);

// For those who write a dataset: the visible names in a folder, sorted, and the non-empty lines of a text
// file, without a byte order mark, of at most max_list_bytes. Both throw pursuit::Error that names the path
// if it cannot be read.
struct Listing {
  std::vector<std::string> files, folders;
};
Listing list_folder(const std::string& path);
inline constexpr size_t max_list_bytes = size_t(64) << 20;  // many times the longest list of a published set
std::vector<std::string> read_lines(const std::string& path);

// Whether the path is a folder; false also where it cannot be looked at.
bool has_folder(const std::string& path);
// Throws Error that says why it is none: missing, a file, or not to be looked at.
void require_folder(const char* where, const std::string& path);

// Whether the name ends in .jpg, .jpeg or .png, in any case.
bool is_image_file(const std::string& name);

}  // namespace pursuit::data

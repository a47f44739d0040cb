#pragma once
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "data/augment.h"
#include "data/dataset.h"
#include "data/segmentation.h"
#include "data/share.h"
#include "engine/base/random.h"

namespace pursuit::data {

struct Batch {
  int64_t size = 0, channels = 0, height = 0, width = 0;
  std::vector<uint8_t> images;  // [size, channels, height, width]
  std::vector<int64_t> labels;  // [size]; for segmentation [size, height, width]
  std::vector<Box> erased;      // [size], for random erasing; otherwise empty boxes
  std::vector<int64_t>
      indices;  // [size], the samples' indices; -1 where another image replaces a damaged one
};

// Turns a sample into one image of the batch, [channels, height, width]. Called from several threads at once.
// Must take all random numbers from the given Random, so that a run can be reproduced.
using Transform = std::function<void(Sample, Random&, std::span<uint8_t>)>;

// The same for an image with a label per pixel: labels are [height, width] numbers.
using SegmentationTransform =
    std::function<void(const SegmentationSample&, Random&, std::span<uint8_t>, std::span<int64_t>)>;

struct LoaderOptions {
  int64_t batch_size = 128;
  int64_t channels = 3, height = 32, width = 32;  // what the transform writes
  bool shuffle = false;                           // a new order in every epoch
  bool drop_last = false;                         // drop the samples that do not fill the last step
  // Repeated augmentation, as DeiT trains: in the shuffled list every sample occurs this many times in a row,
  // and the epoch still ends after size() entries. So an epoch covers part of the samples, each in several
  // variants.
  int64_t repeats = 1;
  RandomErasing erasing{.probability = 0};  // parameters of Batch::erased
  // Draws the part of a picture that the transform is given, before the picture is decoded. Empty: all of it.
  std::function<Part(int width, int height, Random&)> part = {};
  Share share;           // this process's share of the epoch's batches
  int threads = 2;       // 0: work in the thread that calls next()
  int64_t prefetch = 4;  // batches prepared or in progress at any time; bounds the memory
  uint64_t seed = 0;
};

// Prepares batches in background threads. A batch depends only on the seed, the epoch and its index in the
// epoch, never on the share, the number of threads or where a run was resumed:
//   Loader loader(dataset, transform, options);
//   for (int64_t epoch = first; epoch < last; ++epoch) {
//     loader.start(epoch);
//     for (Batch batch; loader.next(batch);) step(batch);
//   }
class Loader {
 public:
  // Keeps a reference to the data set, which must outlive it. Throws pursuit::Error for invalid options.
  Loader(const Dataset& dataset, Transform transform, const LoaderOptions& options);
  Loader(const SegmentationDataset& dataset, SegmentationTransform transform, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  int64_t batches_per_epoch() const;  // of its share
  int64_t steps_per_epoch() const;    // steps in which it has a batch

  // Seeks to a batch of its share of an epoch. Starting at batch b resumes a run
  // exactly.
  void start(int64_t epoch, int64_t batch = 0);
  void start_step(int64_t epoch, int64_t step) { start(epoch, step * options_.share.count); }

  // Puts the next batch of the epoch into `batch`, reusing its buffers, and returns true; returns false at
  // the end of the epoch. An exception from the data set or the transform is rethrown when its batch is due
  // (the first one of the batch); the next call continues with the following batch.
  bool next(Batch& batch);

  double waited() const {
    return waited_;
  }  // seconds that next() has waited for batches, since the beginning

 private:
  // Loads, transforms and labels one row; returns the sample's index, -1 for a replacement.
  using FillRow =
      std::function<int64_t(int64_t sample, Random&, std::span<uint8_t> picture, std::span<int64_t> labels)>;
  Loader(int64_t samples, int64_t labels_per_row, FillRow fill_row, const LoaderOptions& options);

  struct Slot {
    Batch batch;
    int64_t remaining = 0;  // rows not finished
    int64_t error_row = 0;  // the first row that failed, if error is set
    std::exception_ptr error;
  };

  int64_t number_of(int64_t batch) const;  // index in the epoch of batch `batch` of the share
  int64_t rows(int64_t batch) const;
  void shape(Batch& batch, int64_t rows) const;
  void fill(Batch& batch, int64_t number, int64_t row) const;
  void work();
  void stop();

  const int64_t dataset_size_, labels_per_row_;
  const FillRow fill_row_;
  const LoaderOptions options_;
  int64_t batches_ = 0;  // of the share, per epoch

  int64_t epoch_ = 0;
  std::vector<int64_t> order_;  // the epoch's samples, before repetition and sharing
  int64_t taken_ = 0;           // the batch that next() returns next
  double waited_ = 0;

  std::mutex mutex_;
  std::condition_variable slot_free_, slot_done_;
  std::vector<Slot> slots_;                  // batch b is prepared in slot b % prefetch
  int64_t claim_batch_ = 0, claim_row_ = 0;  // the first unclaimed row
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace pursuit::data

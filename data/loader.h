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
  std::vector<int64_t> labels;  // [size], of a segmentation set [size, height, width]
  std::vector<Box> erased;      // [size], of random erasing; empty boxes without
  std::vector<int64_t>
      indices;  // [size], the samples' numbers; -1 where another picture stands in for a damaged one
};

// Turns a sample into one picture of the batch, [channels, height, width]. Called from several threads
// at once. All chance must come from the Random it is given, so that a run can be repeated.
using Transform = std::function<void(const Sample&, Random&, std::span<uint8_t>)>;

// The same for a picture whose every pixel has a label: labels are [height, width] numbers.
using SegmentationTransform =
    std::function<void(const SegmentationSample&, Random&, std::span<uint8_t>, std::span<int64_t>)>;

struct LoaderOptions {
  int64_t batch_size = 128;
  int64_t channels = 3, height = 32, width = 32;  // what the transform writes
  bool shuffle = false;                           // a new order every epoch
  bool drop_last = false;                         // leave out what fills no step at the end of an epoch
  // Repeated augmentation, as DeiT trains: every sample stands this many times in a row in the shuffled list,
  // and the epoch still ends after size() of them, so an epoch sees a part of the samples, each in several
  // variants.
  int64_t repeats = 1;
  RandomErasing erasing{.probability = 0};  // what Batch::erased holds
  Share share;                              // of the epoch's batches, which is what it delivers
  int threads = 2;                          // 0 works in the thread that calls next()
  int64_t prefetch = 4;                     // batches prepared or under way at any time; bounds the memory
  uint64_t seed = 0;
};

// Prepares batches in background threads. What it delivers depends on the seed, the epoch and the batch's
// number in the epoch only, never on the share, the number of threads or where a run was started:
//   Loader loader(dataset, transform, options);
//   for (int64_t epoch = first; epoch < last; ++epoch) {
//     loader.start(epoch);
//     for (Batch batch; loader.next(batch);) step(batch);
//   }
class Loader {
 public:
  // Keeps a reference to the data set, which must outlive it. Throws pursuit::Error if options make no sense.
  Loader(const Dataset& dataset, Transform transform, const LoaderOptions& options);
  Loader(const SegmentationDataset& dataset, SegmentationTransform transform, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  int64_t batches_per_epoch() const;  // of its share
  int64_t steps_per_epoch() const;    // in which it has a batch

  // Goes to a batch of its share of an epoch, wherever it was before. Starting at batch b resumes a run
  // exactly.
  void start(int64_t epoch, int64_t batch = 0);
  void start_step(int64_t epoch, int64_t step) { start(epoch, step * options_.share.count); }

  // Puts the next batch of the epoch in `batch`, whose buffers are reused, and returns true; at the end of
  // the epoch returns false. An exception from the data set or the transform comes out here when its batch is
  // due (the batch's first, if there are several); the next call goes on with the batch after it.
  bool next(Batch& batch);

 private:
  // Loads, transforms and labels one row and returns the sample's number, -1 for a stand-in.
  using FillRow =
      std::function<int64_t(int64_t sample, Random&, std::span<uint8_t> picture, std::span<int64_t> labels)>;
  Loader(int64_t samples, int64_t labels_per_row, FillRow fill_row, const LoaderOptions& options);

  struct Slot {
    Batch batch;
    int64_t remaining = 0;  // rows not yet done
    int64_t error_row = 0;  // the first row that failed, if error is set
    std::exception_ptr error;
  };

  int64_t number_of(int64_t batch) const;  // in the epoch, of batch `batch` of the share
  int64_t rows(int64_t batch) const;
  void shape(Batch& batch, int64_t rows) const;
  void fill(Batch& batch, int64_t number, int64_t row) const;
  void work();
  void stop();

  const int64_t dataset_size_, labels_per_row_;
  const FillRow fill_row_;
  const LoaderOptions options_;
  int64_t batches_ = 0;  // of the share, in an epoch

  int64_t epoch_ = 0;
  std::vector<int64_t> order_;  // the epoch's samples, before repetition and sharing
  int64_t taken_ = 0;           // the batch next() delivers next

  std::mutex mutex_;
  std::condition_variable slot_free_, slot_done_;
  std::vector<Slot> slots_;                  // batch b is prepared in slot b % prefetch
  int64_t claim_batch_ = 0, claim_row_ = 0;  // the first row no thread has claimed
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace pursuit::data

#include "data/loader.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <system_error>
#include <utility>

#include "data/shuffle.h"
#include "data/wait_timer.h"
#include "engine/base/error.h"
#include "engine/base/streams.h"
#include "engine/inspect/trace.h"

namespace pursuit::data {
namespace {

constexpr int64_t kRowsPerClaim = 8;

// The random stream of a position in an epoch.
uint64_t position_stream(int64_t epoch, int64_t position) {
  return streams::rows.at((uint64_t(epoch) << 40) + uint64_t(position));
}

void require(bool ok, const std::string& what, int64_t got, const std::string& need) {
  if (!ok) fail("loader", what + ": got " + std::to_string(got) + ", need " + need);
}

}  // namespace

Loader::Loader(const Dataset& dataset, Transform transform, const LoaderOptions& options)
    : Loader(
          dataset.size(), 1,
          [&dataset, transform = std::move(transform), part = options.part](
              int64_t i, Random& random, std::span<uint8_t> picture, std::span<int64_t> label) {
            // A picture that turns out damaged after its part was drawn leaves its draws to the next.
            const Random start = random;
            const auto choose = [&](int width, int height) {
              random = start;
              return part(width, height, random);
            };
            Sample sample = part ? dataset.get_part(i, choose) : dataset.get(i);
            const int64_t index = sample.index;
            label[0] = sample.label;
            transform(std::move(sample), random, picture);
            return index;
          },
          options) {}

Loader::Loader(const SegmentationDataset& dataset, SegmentationTransform transform,
               const LoaderOptions& options)
    : Loader(
          dataset.size(), options.height * options.width,
          [&dataset, transform = std::move(transform)](int64_t i, Random& random, std::span<uint8_t> picture,
                                                       std::span<int64_t> labels) {
            const SegmentationSample sample = dataset.get(i);
            transform(sample, random, picture, labels);
            return sample.index;
          },
          options) {}

Loader::Loader(int64_t samples, int64_t labels_per_row, FillRow fill_row, const LoaderOptions& options)
    : dataset_size_(samples),
      labels_per_row_(labels_per_row),
      fill_row_(std::move(fill_row)),
      options_(options) {
  const LoaderOptions& o = options_;
  require(o.batch_size > 0, "batch size", o.batch_size, "1 or more");
  require(o.channels > 0 && o.height > 0 && o.width > 0, "a picture dimension",
          std::min({o.channels, o.height, o.width}), "1 or more");
  require(o.repeats > 0, "repeats", o.repeats, "1 or more");
  require(o.threads >= 0, "threads", o.threads, "0 or more");
  require(o.prefetch > 0, "prefetch", o.prefetch, "1 or more");
  check("loader", o.share);
  require(!o.drop_last || o.batch_size <= dataset_size_ / o.share.of, "samples of a step",
          o.batch_size * o.share.of,
          "at most the " + std::to_string(dataset_size_) + " of an epoch, since a partial step is left out");
  const int64_t all = (dataset_size_ + (o.drop_last ? 0 : o.batch_size - 1)) / o.batch_size;
  batches_ = all / o.share.of * o.share.count;
  if (!o.drop_last) batches_ += std::clamp<int64_t>(all % o.share.of - o.share.first, 0, o.share.count);
  slots_.resize(size_t(o.threads > 0 ? o.prefetch : 0));
}

Loader::~Loader() { stop(); }

int64_t Loader::batches_per_epoch() const { return batches_; }

int64_t Loader::steps_per_epoch() const {
  return (batches_ + options_.share.count - 1) / options_.share.count;
}

int64_t Loader::number_of(int64_t batch) const {
  const Share& s = options_.share;
  return batch / s.count * s.of + s.first + batch % s.count;
}

int64_t Loader::rows(int64_t batch) const {
  return std::min(options_.batch_size, dataset_size_ - number_of(batch) * options_.batch_size);
}

void Loader::start(int64_t epoch, int64_t batch) {
  require(epoch >= 0 && epoch < int64_t(1) << 22, "epoch", epoch, "0 to 4194303");
  require(batch >= 0 && batch <= batches_per_epoch(), "batch", batch,
          "0 to " + std::to_string(batches_per_epoch()));
  stop();
  epoch_ = epoch;
  taken_ = claim_batch_ = batch;
  claim_row_ = 0;
  if (options_.shuffle) {
    order_ = shuffled(dataset_size_, options_.seed, epoch);
  } else {
    order_.resize(size_t(dataset_size_));
    std::iota(order_.begin(), order_.end(), int64_t(0));
  }
  stopping_ = false;
  for (Slot& slot : slots_) slot.error = nullptr;
  for (int64_t b = batch; b < std::min(batch + int64_t(slots_.size()), batches_per_epoch()); ++b) {
    Slot& slot = slots_[size_t(b) % slots_.size()];
    slot.remaining = rows(b);
    shape(slot.batch, slot.remaining);
  }
  try {
    for (int t = 0; t < options_.threads; ++t) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    fail("loader", "the system starts no more than " + std::to_string(threads_.size()) + " of " +
                       std::to_string(options_.threads) + " threads (" + error.code().message() +
                       "); use fewer workers");
  }
}

void Loader::shape(Batch& batch, int64_t rows) const {
  batch.size = rows;
  batch.channels = options_.channels;
  batch.height = options_.height;
  batch.width = options_.width;
  batch.images.resize(size_t(rows * options_.channels * options_.height * options_.width));
  batch.labels.resize(size_t(rows * labels_per_row_));
  batch.erased.resize(size_t(rows));
  batch.indices.resize(size_t(rows));
}

void Loader::fill(Batch& batch, int64_t number, int64_t row) const {
  const int64_t position = number_of(number) * options_.batch_size + row;
  Random random(options_.seed, position_stream(epoch_, position));
  const auto pixels = size_t(options_.channels * options_.height * options_.width),
             labels = size_t(labels_per_row_);
  batch.indices[size_t(row)] = fill_row_(order_[size_t(position / options_.repeats)], random,
                                         std::span(batch.images).subspan(size_t(row) * pixels, pixels),
                                         std::span(batch.labels).subspan(size_t(row) * labels, labels));
  batch.erased[size_t(row)] =
      draw_erasing(int(options_.width), int(options_.height), random, options_.erasing);
}

bool Loader::next(Batch& batch) {
  if (taken_ >= batches_per_epoch()) return false;
  const WaitTimer timer(waited_);
  const int64_t number = taken_;
  if (slots_.empty()) {
    ++taken_;
    shape(batch, rows(number));
    for (int64_t row = 0; row < batch.size; ++row) fill(batch, number, row);
    return true;
  }
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[size_t(number) % slots_.size()];
  slot_done_.wait(lock, [&] { return slot.remaining == 0; });
  std::swap(batch, slot.batch);
  ++taken_;
  const std::exception_ptr error = std::exchange(slot.error, nullptr);
  const int64_t following = number + int64_t(slots_.size());
  if (following < batches_per_epoch()) {
    slot.remaining = rows(following);
    shape(slot.batch, slot.remaining);
    slot_free_.notify_all();
  }
  lock.unlock();
  if (error) std::rethrow_exception(error);
  return true;
}

// Runs in each thread: claims and fills a few rows of the first unfinished batch, until the epoch ends.
void Loader::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    // A batch can be started once next() has freed its slot.
    slot_free_.wait(lock, [&] {
      return stopping_ || claim_batch_ >= batches_per_epoch() ||
             claim_batch_ < taken_ + int64_t(slots_.size());
    });
    if (stopping_ || claim_batch_ >= batches_per_epoch()) return;
    const int64_t number = claim_batch_, first = claim_row_;
    const int64_t last = std::min(first + kRowsPerClaim, rows(number));
    claim_row_ = last;
    if (last == rows(number)) {
      ++claim_batch_;
      claim_row_ = 0;
    }
    Slot& slot = slots_[size_t(number) % slots_.size()];
    lock.unlock();
    std::exception_ptr error;
    int64_t row = first;
    try {
      const TraceSpan span("load");
      for (; row < last; ++row) fill(slot.batch, number, row);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && (!slot.error || row < slot.error_row)) {
      slot.error = error;
      slot.error_row = row;
    }
    slot.remaining -= last - first;
    if (slot.remaining == 0) slot_done_.notify_one();
  }
}

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  slot_free_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace pursuit::data

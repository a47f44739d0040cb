#include "data/text/batches.h"

#include <algorithm>
#include <utility>

#include "data/shuffle.h"
#include "data/wait_timer.h"
#include "engine/base/error.h"
#include "engine/base/streams.h"

namespace pursuit::data {

TextBatches::TextBatches(Tokens tokens, int64_t line_end, const TextBatchOptions& options)
    : tokens_(std::move(tokens)), line_end_(line_end), options_(options) {
  if (options.batch_size < 1 || options.length < 1)
    fail("text", "got batches of " + std::to_string(options.batch_size) + " rows of " +
                     std::to_string(options.length) + " tokens, need at least 1 of each");
  check("text", options.share);
  const int64_t size = int64_t(tokens_.ids.size());
  if (size == 0) fail("text", "the text is empty: there is nothing to predict");
  const auto cut = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += options.length)
      rows_.push_back({i, std::min(i + options.length, end), i == begin});
  };
  if (options.masking && options.mode != TextBatchOptions::Mode::blocks)
    fail("text", "masked words need whole blocks; choose rows by blocks");
  if (options.masking && size < options.length)
    fail("text", "masked words need whole blocks of " + std::to_string(options.length) +
                     " tokens; choose a context of at most the text's " + std::to_string(size) + " tokens");
  if (options.mode == TextBatchOptions::Mode::blocks) {
    cut(0, options.masking ? size - size % options.length : size);
  } else {
    for (size_t d = 0; d < tokens_.documents.size(); ++d)
      cut(tokens_.documents[d], d + 1 < tokens_.documents.size() ? tokens_.documents[d + 1] : size);
  }
}

int64_t TextBatches::tokens() const {
  return options_.masking ? rows() * masked_words(options_.length, *options_.masking)
                          : int64_t(tokens_.ids.size());
}

int64_t TextBatches::steps() const {
  const int64_t of_step = options_.batch_size * options_.share.of;
  return (rows() + of_step - 1) / of_step;
}

void TextBatches::get(int64_t epoch, int64_t step, int64_t batch, TextBatch& out) {
  if (epoch < 0 || step < 0 || step >= steps() || batch < 0 || batch >= options_.share.count)
    fail("text", "there is no batch " + std::to_string(batch) + " of step " + std::to_string(step) +
                     " in epoch " + std::to_string(epoch) + ", need 0 to " +
                     std::to_string(options_.share.count - 1) + " of 0 to " + std::to_string(steps() - 1));
  const WaitTimer timer(waited_);
  if (options_.shuffle && order_of_ != epoch) {
    order_ = shuffled(rows(), options_.seed, epoch);
    order_of_ = epoch;
  }
  clear(options_.batch_size, out);
  const int64_t of_step = options_.batch_size * options_.share.of;
  for (int64_t r = 0; r < options_.batch_size; ++r) {
    const int64_t row = (options_.share.first + batch) * options_.batch_size + r;  // within the step
    const int64_t position = options_.shuffle ? step * of_step + row : row * steps() + step;
    if (position < rows()) fill(epoch, options_.shuffle ? order_[size_t(position)] : position, r, out);
  }
}

void TextBatches::get_row(int64_t number, TextBatch& out) const {
  if (number < 0 || number >= rows())
    fail("text", "there is no row " + std::to_string(number) + ", need 0 to " + std::to_string(rows() - 1));
  clear(1, out);
  fill(0, number, 0, out);
}

void TextBatches::clear(int64_t rows, TextBatch& out) const {
  const size_t size = size_t(rows * options_.length);
  out.ids.assign(size, line_end_);
  out.labels.assign(size, -1);
  out.lengths.assign(size_t(rows), 0);
  out.count = 0;
}

void TextBatches::fill(int64_t epoch, int64_t number, int64_t r, TextBatch& out) const {
  const Row& cut = rows_[size_t(number)];
  const int32_t* labels = tokens_.ids.data() + cut.begin;
  const int64_t count = cut.end - cut.begin, at = r * options_.length;
  out.lengths[size_t(r)] = count;
  if (options_.masking) {
    Random random(options_.seed, streams::masks.at((uint64_t(epoch) << 32) + uint64_t(number)));
    mask_row({labels, size_t(count)}, *options_.masking, random, {&out.ids[size_t(at)], size_t(count)},
             {&out.labels[size_t(at)], size_t(count)});
    out.count += masked_words(count, *options_.masking);
    return;
  }
  std::copy_n(labels, count, out.labels.begin() + at);
  std::copy_n(labels, count - 1, out.ids.begin() + at + 1);
  out.ids[size_t(at)] = cut.starts ? line_end_ : labels[-1];
  out.count += count;
}

}  // namespace pursuit::data

#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "data/share.h"
#include "data/text/corpus.h"
#include "data/text/masking.h"
#include "engine/base/choice.h"

namespace pursuit::data {

// Rows of tokens and the token that follows each. A document, and the text, is preceded by an end of line as
// its first input.
struct TextBatch {
  std::vector<int64_t> ids, labels;  // [batch_size, length]; label -1: nothing to predict
  std::vector<int64_t> lengths;      // [batch_size], of the rows; what follows is padding
  int64_t count = 0;                 // labels that are not -1
};

struct TextBatchOptions {
  int64_t batch_size = 64, length = 64;
  // blocks: the text is one stream, cut every `length` tokens. documents: rows do not cross documents; the
  // last row of a document is padded.
  enum class Mode { blocks, documents } mode = Mode::blocks;
  friend std::vector<Choice<Mode>> choices_of(Mode) {
    return {{"blocks", Mode::blocks, "the text cut at every window"},
            {"documents", Mode::documents, "a row ends with its document"}};
  }
  // Shuffle the rows in every epoch. Otherwise row r of step s is row r * steps() + s of the text, so that
  // each row of a step continues that of the step before.
  bool shuffle = false;
  uint64_t seed = 0;  // of the order and the masked words
  Share share = {};   // this process's share of the batches
  // Ids are the labels' words, of which some are hidden, and only these are predicted; other ones in every
  // epoch. Needs blocks, of which the last one is left out if it is shorter.
  std::optional<Masking> masking = {};
};

// Batches of a text, step by step: the rows of a step are those of its batches in order. A batch depends only
// on the seed, the epoch, its step and its position in the step. All batches have the same shape: the last
// step is padded with rows in which nothing is predicted.
class TextBatches {
 public:
  // Keeps the tokens' memory alive. Throws Error if the text is empty or an option is invalid.
  TextBatches(Tokens tokens, int64_t line_end, const TextBatchOptions& options);

  int64_t steps() const;
  int64_t length() const { return options_.length; }
  int64_t rows() const { return int64_t(rows_.size()); }
  int64_t tokens() const;  // predicted per epoch
  void get(int64_t epoch, int64_t step, TextBatch& out) { get(epoch, step, 0, out); }
  // Batch `batch` of this share in a step.
  void get(int64_t epoch, int64_t step, int64_t batch, TextBatch& out);
  // Row `number` of the text in epoch 0, whatever the order and the batches: [1, length].
  void get_row(int64_t number, TextBatch& out) const;
  double waited() const { return waited_; }  // seconds in get, since the beginning

 private:
  struct Row {
    int64_t begin, end;  // of the labels
    bool starts;         // begins a document, or the text
  };
  void clear(int64_t rows, TextBatch& out) const;
  void fill(int64_t epoch, int64_t number, int64_t r, TextBatch& out) const;  // row `number` as row r

  Tokens tokens_;
  int64_t line_end_;
  TextBatchOptions options_;
  std::vector<Row> rows_;
  std::vector<int64_t> order_;
  int64_t order_of_ = -1;  // its epoch
  double waited_ = 0;
};

}  // namespace pursuit::data

#pragma once
#include <cstdint>
#include <vector>

#include "data/share.h"
#include "data/text/corpus.h"
#include "engine/base/choice.h"

namespace pursuit::data {

// Rows of tokens and what follows each of them. The first input of a document, and of the text, is an end of
// line.
struct TextBatch {
  std::vector<int64_t> ids, labels;  // [batch_size, length]; label -1: nothing to predict
  int64_t count = 0;                 // labels that are not -1
};

struct TextBatchOptions {
  int64_t batch_size = 64, length = 64;
  // blocks: the text is one stream, cut every `length` tokens whatever stands there. documents: a row never
  // reaches into another document; the rest of a document's last row is filled up.
  enum class Mode { blocks, documents } mode = Mode::blocks;
  friend std::vector<Choice<Mode>> choices_of(Mode) {
    return {{"blocks", Mode::blocks, "the text cut at every window"},
            {"documents", Mode::documents, "a row ends with its document"}};
  }
  // A new order of the rows every epoch. Without it row r of step s is row r * steps() + s of the text, so
  // that each row of a step goes on where it was in the step before.
  bool shuffle = false;
  uint64_t seed = 0;
  Share share = {};  // of the batches
};

// Batches of a text, by the steps that use them up: the rows of a step are those of its batches one after the
// other. What a batch holds depends on the seed, the epoch, its step and its place in the step alone. All
// batches have the same shape: those of the last step are filled up with rows in which nothing is predicted.
class TextBatches {
 public:
  // Keeps the tokens' memory alive. Throws Error if the text is empty or an option makes no sense.
  TextBatches(Tokens tokens, int64_t line_end, const TextBatchOptions& options);

  int64_t steps() const;
  int64_t length() const { return options_.length; }
  int64_t rows() const { return int64_t(rows_.size()); }
  int64_t tokens() const { return int64_t(tokens_.ids.size()); }  // predicted in an epoch
  void get(int64_t epoch, int64_t step, TextBatch& out) { get(epoch, step, 0, out); }
  // Batch `batch` of the share's in a step.
  void get(int64_t epoch, int64_t step, int64_t batch, TextBatch& out);

 private:
  struct Row {
    int64_t begin, end;  // of the labels
    bool starts;         // a document, or the text
  };
  Tokens tokens_;
  int64_t line_end_;
  TextBatchOptions options_;
  std::vector<Row> rows_;
  std::vector<int64_t> order_;
  int64_t order_of_ = -1;  // the epoch
};

}  // namespace pursuit::data

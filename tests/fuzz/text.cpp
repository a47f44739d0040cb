#include "data/text/batches.h"
#include "data/text/corpus.h"
#include "data/text/word_changes.h"
#include "engine/base/error.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

namespace {

// A folder of text, by words and by bytes.
void read(std::string_view input) {
  const std::string folder = write_folder("text", input);
  for (const bool bytes : {false, true}) try {
      const data::Corpus corpus =
          data::open_corpus(folder, {.bytes = bytes, .vocabulary_limit = bytes ? 0 : 20});
      data::TextBatches batches(
          corpus.train, corpus.vocabulary.line_end(),
          {.batch_size = 2, .length = 8, .mode = data::TextBatchOptions::Mode::documents});
      data::TextBatch batch;
      batches.get(0, 0, batch);
      corpus.vocabulary.decode(batch.ids);
      if (!bytes)
        for (const auto& change : choices_of(data::WordChange{}))
          data::change_words(corpus.source.train[0].text, {.change = change.value, .rate = 0.2});
    } catch (const Error&) {
    }
}

}  // namespace

const Target target{.read = read, .split = split_files, .join = join_files};

}  // namespace pursuit::fuzz

#include <algorithm>
#include <memory>
#include <vector>

#include "apps/lm/commands.h"

namespace pursuit::lm {

namespace {

// Windows of the training text in random order, without padding: that would enter the ranges.
apps::CalibrationBatches batches_of(const nn::TransformerLm& model, const Config& config,
                                    const apps::QuantizeOptions& o) {
  const data::Vocabulary words = vocabulary(config);
  const data::TextSource source = data::open_text(config.data);
  const std::vector<data::TextFile>& files = files_of(source, data::TextSplit::train, config);
  const data::Tokens tokens = data::encode(files, source.layout, words);
  data::check_same_language(tokens, words, config.unknown_share, files[0].name);
  data::TextBatchOptions options = evaluation_rows(config);
  options.mode = data::TextBatchOptions::Mode::blocks;
  options.shuffle = true;
  options.seed = o.seed;
  options.batch_size = 1;
  const int64_t count = std::min(o.samples, data::TextBatches(tokens, words.line_end(), options).rows());
  options.batch_size = std::min(o.batch_size, count);
  const auto rows = std::make_shared<data::TextBatches>(tokens, words.line_end(), options);
  const int64_t batches = (count + options.batch_size - 1) / options.batch_size;
  return {batches, count, [rows, &model, count, size = options.batch_size](int64_t number) {
            data::TextBatch batch;
            rows->get(0, number, batch);
            batch.lengths.resize(size_t(std::min(size, count - number * size)));  // the last batch is smaller
            // The text's last window may be shorter: it is left out, but where it is the only one.
            const int64_t length = *std::max_element(batch.lengths.begin(), batch.lengths.end());
            std::vector<int64_t> ids;
            for (size_t r = 0; r < batch.lengths.size(); ++r) {
              const auto row = batch.ids.begin() + std::ptrdiff_t(r) * rows->length();
              if (batch.lengths[r] == length) ids.insert(ids.end(), row, row + length);
            }
            model.features(from_vector(ids, {int64_t(ids.size()) / length, length}));
          }};
}

}  // namespace

int quantize(const apps::QuantizeOptions& options) { return apps::quantize_run<Config>(options, batches_of); }

}  // namespace pursuit::lm

#include <algorithm>
#include <memory>

#include "apps/classify/commands.h"
#include "apps/classify/pipeline.h"

namespace pursuit::classify {

namespace {

// Pictures of the training split as evaluation shows them, in the loader's random order.
apps::CalibrationBatches batches_of(const Model& model, const Config& config,
                                    const apps::QuantizeOptions& o) {
  struct Pictures {
    std::unique_ptr<data::Dataset> data;
    std::unique_ptr<data::Loader> loader;
  };
  const auto pictures = std::make_shared<Pictures>();
  pictures->data = open_data(config, data::Split::train);
  const int64_t count = std::min(o.samples, pictures->data->size());
  if (count == 0) fail("quantize", "the training split is empty");
  data::LoaderOptions options = evaluation_loader_options(config);
  options.batch_size = std::min(o.batch_size, count);
  options.shuffle = true;
  options.seed = o.seed;
  pictures->loader = std::make_unique<data::Loader>(*pictures->data, evaluation_transform(config), options);
  pictures->loader->start(0);
  const int64_t batches = (count + options.batch_size - 1) / options.batch_size;
  return {batches, count, [pictures, &model, &config, count, size = options.batch_size](int64_t number) {
            data::Batch batch;
            if (!pictures->loader->next(batch)) fail("quantize", "the training split has no further picture");
            const int64_t used = std::min(size, count - number * size);  // the last batch is smaller
            batch.images.resize(batch.images.size() / size_t(batch.size) * size_t(used));
            model(input_of(config, batch.images));
          }};
}

}  // namespace

int quantize(const apps::QuantizeOptions& options) { return apps::quantize_run<Config>(options, batches_of); }

}  // namespace pursuit::classify

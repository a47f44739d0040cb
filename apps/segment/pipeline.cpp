#include "apps/segment/pipeline.h"

#include <algorithm>
#include <limits>

#include "apps/run/run_folder.h"
#include "apps/segment/predictor.h"
#include "apps/terminal/print.h"
#include "apps/training/checkpoint.h"
#include "apps/training/step_memory.h"
#include "data/fingerprint.h"
#include "data/resize.h"
#include "data/segmentation_augment.h"
#include "engine/base/error.h"
#include "engine/ops.h"

namespace pursuit::segment {

namespace {

// Throws Error that names a field of the encoder's config that is not as needed.
void check_field(const apps::Checkpoint& encoder, const char* field, int64_t needed) {
  const auto found = encoder.config.find(field);
  if (found == encoder.config.end() || *found == needed) return;
  fail("segment",
       fmt::format("--encoder {}: its {} is {}, need {}", encoder.path, field, found->dump(), needed));
}

// Takes mean and std from the encoder's run, which has seen pictures normalised by them.
void take_statistics(Config& c) {
  const apps::Checkpoint encoder = apps::open_checkpoint("classify", c.encoder, /*verify=*/false);
  check_field(encoder, "channels", 3);
  for (const auto& [name, values] : {std::pair{"mean", &c.mean}, {"std", &c.std}}) {
    if (!encoder.config.contains(name))
      fail("segment", fmt::format("--encoder {}: its config has no '{}'", encoder.path, name));
    if (const std::string problem = apps::read_member(encoder.config, name, *values); !problem.empty())
      fail("segment", fmt::format("--encoder {}: {}", encoder.path, problem));
  }
  apps::check_statistics(("--encoder " + encoder.path).c_str(), c.mean, c.std, 3);
}

}  // namespace

std::unique_ptr<data::SegmentationDataset> open_data(const Config& c, data::Split split, int64_t first,
                                                     const data::CorruptedPart& part) {
  data::SegmentationOptions o;
  o.format = c.data.empty() && c.format == "auto" ? "scenes" : c.format;
  o.first = first;
  o.part = part;
  o.limit = split == data::Split::train ? c.limit : c.test_limit;
  o.skip_bad = c.skip_bad;
  o.decoding.decoder = c.jpeg_decoder;
  o.cache_bytes = c.cache_mib << 20;
  auto data = data::open_segmentation(c.data, split, o);
  if (data->split() != split)
    apps::note("note: {} has no split {}; {} is taken in its place\n", apps::last_name(c.data),
               choice_name(split), choice_name(data->split()));
  return data;
}

void complete(Config& config, const data::SegmentationDataset& train) {
  if (train.size() == 0) fail("segment", "the training split is empty");
  config.classes = train.classes();
  config.colours = train.colours();
  if (!config.encoder.empty()) return take_statistics(config);
  config.mean = {0.485, 0.456, 0.406};  // ImageNet's
  config.std = {0.229, 0.224, 0.225};
}

data::SegmentationTransform train_transform(const Config& c) {
  data::SegmentationAugment o;
  o.crop_width = int(c.width);
  o.crop_height = int(c.height);
  o.short_side = int(c.short_side);
  o.long_side = c.long_side > 0 ? int(c.long_side) : std::numeric_limits<int>::max();
  o.ratio_min = c.ratio_min;
  o.ratio_max = c.ratio_max;
  o.max_class_share = c.max_class_share;
  o.flip = c.flip;
  o.photometric = c.photometric;
  // As evaluation pads windows.
  return [o, padding = data::mean_colour(c.mean)](const data::SegmentationSample& sample, Random& random,
                                                  std::span<uint8_t> chw, std::span<int64_t> labels) {
    data::to_padded(data::augment(sample, o, random), padding, o.crop_width, o.crop_height, chw, labels);
  };
}

data::LoaderOptions train_loader_options(const Config& c, const data::Share& share) {
  data::LoaderOptions o;
  o.batch_size = c.batch_size;
  o.channels = 3;
  o.height = c.height;
  o.width = c.width;
  o.shuffle = o.drop_last = true;
  o.share = share;
  o.threads = c.workers;
  o.seed = c.seed;
  return o;
}

std::string describe_data(const Config& config, data::Split split) {
  return (config.data.empty() ? "scenes" : apps::last_name(config.data)) + " " + choice_name(split);
}

StepInput::StepInput(const Config& c, Device device)
    : images({c.batch_size, 3, c.height, c.width}, DType::u8, device),
      labels({c.batch_size, c.height, c.width}, DType::i64, device) {}

nn::Loss loss(const nn::Segmenter& model, const Config& c, const StepInput& in) {
  // A GPU writes the patches at once; a CPU gathers them where they are multiplied.
  const Tensor pictures = in.images.tensor();
  const Tensor images = normalise_images(pictures, c.mean, c.std, c.dtype, {}, {}, 0, 0, {},
                                         pictures.device().is_cuda() ? c.patch : 0);
  return {upsample_cross_entropy(model(images), in.labels.tensor(), data::kIgnoredLabel)};
}

void train_on_shapes(const Config& c, int64_t height, int64_t width) {
  const Device device = device_from_name(c.device);
  nn::Segmenter model(model_config(c));
  model.to(device);
  const StepInput input(c, device);
  model.set_step(0, 0);
  apps::train_on_shapes(
      model, c, [&] { return loss(model, c, input); },
      [&] { predictor_of(model, c).look_on_shapes(height, width); });
}

void show_pictures(const nn::Segmenter& model, const Config& c, const data::SegmentationDataset& data,
                   int64_t count, nn::AttentionInspection& inspection) {
  const Predictor predictor = predictor_of(model, c);
  count = std::min(count, data.size());
  for (int64_t i = 0; i < count; ++i) {
    const data::Image picture = data.get(i * data.size() / count).image;
    inspection.add([&] { predictor.classes_of(picture); });
  }
}

apps::Filmed show_split(const apps::LoadedModel<Config>& loaded, const apps::InspectPicturesOptions& o,
                        nn::AttentionInspection& inspection, apps::Conditions& conditions) {
  Config c = loaded.config;
  if (!o.data.empty()) c.data = o.data, c.format = "auto";
  const auto data = open_data(c, o.split);
  if (data->size() == 0) fail("inspect", std::string("the ") + choice_name(o.split) + " split is empty");
  conditions.data = describe_data(c, data->split());
  conditions.fingerprint = data::fingerprint(*data, c.data);
  conditions.count = std::min(o.samples, data->size());
  show_pictures(*loaded.model, c, *data, o.samples, inspection);
  const data::Image window =
      data::resize(data::to_rgb(data->get(0).image), int(c.width), int(c.height), data::Filter::bilinear);
  const Shape shape{1, 3, c.height, c.width};
  std::vector<uint8_t> planes(size_t(shape.numel()));
  data::to_planes(window, planes);
  const Tensor pixels = from_vector(planes, shape).to(device_from_name(c.device));
  return {window, normalise_images(pixels, c.mean, c.std, c.dtype), c.height / c.patch, c.width / c.patch};
}

void load_encoder(nn::Segmenter& model, const std::string& run_or_file) {
  const apps::Checkpoint encoder = apps::open_checkpoint("classify", run_or_file);
  const nn::VitConfig& own = model.config().encoder;
  // What the names and shapes of the tensors do not show.
  check_field(encoder, "weight-bits", 0);
  check_field(encoder, "depth", own.depth);
  check_field(encoder, "heads", own.heads);
  // The weights with which the run itself is evaluated.
  const auto weights = encoder.config.find("eval-weights");
  const bool raw = !apps::has_average(encoder) || (weights != encoder.config.end() && *weights == "raw");
  const auto tensors = raw ? encoder.parameters() : encoder.averages();
  model.load_encoder({tensors.begin(), tensors.end()}, encoder.path);
}

}  // namespace pursuit::segment

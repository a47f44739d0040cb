#include "apps/classify/pipeline.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/classify/results.h"
#include "apps/terminal/print.h"
#include "apps/terminal/signals.h"
#include "apps/training/checkpoint.h"
#include "apps/training/step_memory.h"
#include "data/augment.h"
#include "data/class_names.h"
#include "data/fingerprint.h"
#include "data/rand_augment.h"
#include "engine/base/error.h"
#include "engine/base/streams.h"
#include "engine/ops.h"
#include "nn/frozen_parameters.h"

namespace pursuit::classify {

namespace {

constexpr data::RandomResizedCrop crop_options;

data::Image with_channels(const Config& c, data::Image image) {
  return c.channels == 1 ? data::to_grey(std::move(image)) : data::to_rgb(std::move(image));
}

// Sets mean and std: ImageNet's for colour pictures above 64 pixels, as published checkpoints use them, else
// those of up to 2000 training pictures.
void measure(Config& config, const data::Dataset& train) {
  if (config.image_size > 64 && config.channels == 3) {
    config.mean = {0.485, 0.456, 0.406};
    config.std = {0.229, 0.224, 0.225};
    return;
  }
  const int64_t n = std::min<int64_t>(train.size(), 2000);
  std::vector<double> sum(size_t(config.channels)), squares(size_t(config.channels));
  int64_t count = 0;
  for (int64_t i = 0; i < n; ++i) {
    const data::Image image = with_channels(config, train.get(i * train.size() / n).image);
    count += int64_t(image.width) * image.height;
    for (size_t p = 0; p < image.pixels.size(); ++p) {
      const double v = image.pixels[p] / 255.0;
      sum[p % size_t(config.channels)] += v;
      squares[p % size_t(config.channels)] += v * v;
    }
  }
  config.mean.clear();
  config.std.clear();
  for (size_t c = 0; c < sum.size(); ++c) {
    const double mean = sum[c] / double(count);
    config.mean.push_back(mean);
    config.std.push_back(std::sqrt(std::max(squares[c] / double(count) - mean * mean, 1e-6)));
  }
}

// Only reports need the names, so an unreadable list is noted and does not stop training.
std::vector<std::string> readable_names(const Config& c) {
  try {
    return data::class_names(c.data, c.classes);
  } catch (const Error& e) {
    apps::note("note: {}; reports name the classes by their folders\n", e.what());
    return {};
  }
}

// Removes replacements of damaged pictures (index -1), which would be counted twice.
void drop_stand_ins(data::Batch& batch) {
  const size_t picture = batch.images.size() / size_t(batch.size);
  size_t kept = 0;
  for (size_t i = 0; i < size_t(batch.size); ++i) {
    if (batch.indices[i] < 0) continue;
    std::copy_n(batch.images.begin() + int64_t(i * picture), kept == i ? 0 : picture,
                batch.images.begin() + int64_t(kept * picture));
    batch.labels[kept] = batch.labels[i];
    batch.indices[kept++] = batch.indices[i];
  }
  batch.size = int64_t(kept);
  batch.images.resize(kept * picture);
  batch.labels.resize(kept);
  batch.indices.resize(kept);
}

// `logits` f32 [rows, classes] and `labels` i64 [rows] on the CPU.
void add_rows(Totals& totals, const Tensor& logits, const Tensor& labels) {
  const float* const values = logits.data<float>();
  if (std::any_of(values, values + logits.numel(), [](float v) { return !std::isfinite(v); }))
    throw apps::NotFinite("the model gives NaN or infinity: its training has diverged");
  totals.confusion.add(argmax(logits), labels);
  totals.top5 += nn::top_k_correct(logits, labels, 5);
  totals.calibration.add(logits, labels);
}

bool mixes(const Config& c) { return c.mixup > 0 || c.cutmix > 0; }

std::vector<float> floats(const Tensor& t) {
  const std::vector<double> values = t.to_vector();
  return {values.begin(), values.end()};
}

}  // namespace

std::unique_ptr<data::Dataset> open_data(const Config& c, data::Split split, int64_t first,
                                         const data::CorruptedPart& part) {
  const bool of_test = split == data::Split::test;
  if (split == data::Split::val && c.validation == 0)
    fail("classify",
         "the run held no pictures out of its training split; it was trained with --validation 0");
  data::DatasetOptions o;
  o.format = c.data.empty() && c.format == "auto" ? "synthetic" : c.format;
  o.first = of_test ? first : 0;
  o.part = part;
  o.limit = of_test ? c.test_limit : c.limit;
  o.train_files = c.train_files;
  o.test_files = c.test_files;
  o.skip_bad = c.skip_bad;
  o.decoding = {c.jpeg_decoder, c.scaled_decoding};
  o.cache_bytes = c.cache_mib << 20;
  o.classes = split == data::Split::test ? c.classes : std::vector<std::string>{};
  if (c.image_size > 0 && split == data::Split::train) {
    // Cached training pictures are at most twice 256/224 of the model's size, which saves memory and later
    // resizing. Test pictures are resized only once, as in published evaluations.
    const int shorter = int(c.image_size * 256 / 224);
    o.prepare = [shorter](data::Image image) {
      const bool large = std::min(image.width, image.height) > 2 * shorter;
      return large ? data::resize_shorter(image, 2 * shorter, data::Filter::bicubic) : image;
    };
  }
  auto all = data::open_dataset(c.data, of_test ? split : data::Split::train, o);
  if (of_test || c.validation == 0) return all;
  auto used = data::part_of_training(std::move(all), split, c.validation);
  if (split == data::Split::train) return used;
  const std::vector<int64_t> numbers = data::samples_in_use(used->size(), first, c.test_limit);
  return data::subset(std::move(used), numbers);
}

void forget_files(Config& config, data::Split split) {
  config.test_files.clear();
  if (split == data::Split::test) config.train_files.clear();
}

data::Split evaluated_split(const Config& c) {
  return c.validation > 0 ? data::Split::val : data::Split::test;
}

std::string split_name(const data::Dataset& data, data::Split split) {
  return split == data::Split::val ? "validation" : data.test_split();
}

void complete(Config& config, const data::Dataset& train) {
  if (train.size() == 0) fail("classify", "the training split is empty");
  const data::Image first = train.get(0).image;
  config.classes = train.classes();
  config.class_names = readable_names(config);
  config.channels = first.channels;
  const bool small = std::max(first.width, first.height) <= 64;
  if (config.image_size == 0) config.image_size = small ? std::max(first.width, first.height) : 224;
  if (attends(config) && config.patch == 0) config.patch = config.image_size <= 64 ? 4 : 16;
  if (attends(config) && config.image_size % config.patch)
    fail("classify", "--image-size " + std::to_string(config.image_size) + " is no multiple of --patch " +
                         std::to_string(config.patch) + "; give another of the two");
  if (config.crop == Crop::automatic) config.crop = small ? Crop::padded : Crop::resized;
  measure(config, train);
}

data::Image evaluation_view(const Config& c, const data::Image& image, data::Filter filter) {
  const int size = int(c.image_size);
  if (image.width == size && image.height == size) return with_channels(c, image);
  if (size <= 64 && image.width == image.height)
    return with_channels(c, data::resize(image, size, size, filter));
  return with_channels(c, data::imagenet_view(image, size, filter));
}

data::Transform train_transform(const Config& c) {
  return [c](data::Sample sample, Random& random, std::span<uint8_t> chw) {
    const int size = int(c.image_size);
    data::Image image = with_channels(c, std::move(sample.image));
    if (c.crop == Crop::resized) {
      image = data::resize(image, size, size, crop_options.filter);
    } else {
      if (image.width != size || image.height != size) image = evaluation_view(c, image);
      if (c.crop == Crop::padded)
        image = data::random_padded_crop(image, size, c.crop_padding ? c.crop_padding : size / 8, random);
    }
    if (c.flip > 0) image = data::random_flip(std::move(image), random, c.flip);
    if (c.rand_augment)
      image = data::rand_augment(image, random);
    else if (c.colour_jitter > 0)
      image = data::colour_jitter(image, random, {c.colour_jitter, c.colour_jitter, c.colour_jitter});
    data::to_planes(image, chw);
  };
}

data::Transform evaluation_transform(const Config& c, const apps::PictureChange& change) {
  return [c, change](const data::Sample& sample, Random&, std::span<uint8_t> chw) {
    const data::Filter filter = change ? data::Filter::bilinear : data::Filter::bicubic;
    data::Image image = evaluation_view(c, sample.image, filter);
    if (change) image = change(image, sample.index);
    data::to_planes(image, chw);
  };
}

data::LoaderOptions train_loader_options(const Config& c, const data::Share& share) {
  data::LoaderOptions o = evaluation_loader_options(c, share);
  o.batch_size = c.batch_size;
  o.shuffle = o.drop_last = true;
  o.repeats = c.repeats;
  o.erasing.probability = c.random_erasing;
  if (c.crop == Crop::resized)
    o.part = [size = int(c.image_size)](int width, int height, Random& random) {
      return data::Part{data::draw_crop(width, height, random, crop_options), size, size};
    };
  return o;
}

data::LoaderOptions evaluation_loader_options(const Config& c, const data::Share& share) {
  data::LoaderOptions o;
  o.share = share;
  o.batch_size = c.eval_batch_size;
  o.channels = c.channels;
  o.height = o.width = c.image_size;
  o.threads = c.workers;
  o.seed = c.seed;
  return o;
}

Tensor input_of(const Config& c, const std::vector<uint8_t>& images) {
  const int64_t batch = int64_t(images.size()) / (c.channels * c.image_size * c.image_size);
  const Tensor pixels = from_vector(images, {batch, c.channels, c.image_size, c.image_size});
  return normalise_images(pixels.to(device_from_name(c.device)), c.mean, c.std, c.dtype);
}

Tensor labels_of(const data::Batch& b, Device device) { return from_vector(b.labels, {b.size}).to(device); }

Tensor restricted(const Tensor& logits, const std::vector<int64_t>& only) {
  const int64_t classes = logits.size(1);
  if (int64_t(only.size()) == classes) return logits;
  // Not -inf, because 0 * -inf is NaN; logits are far above -1e9.
  std::vector<float> offsets(size_t(classes), -1e9f);
  for (const int64_t c : only) offsets.at(size_t(c)) = 0;
  return logits + from_vector(offsets, {1, classes}).to(logits.dtype()).to(logits.device());
}

Tensor logits_of(const std::vector<int64_t>& only, const Tensor& logits) {
  if (int64_t(only.size()) == logits.size(1)) return logits;
  const Tensor places = from_vector(only, {1, int64_t(only.size())}).to(logits.device());
  return gather(logits, 1, contiguous(expand(places, {logits.size(0), int64_t(only.size())})));
}

Tensor labels_among(const std::vector<int64_t>& only, const Tensor& labels) {
  std::vector<int64_t> places;
  for (const double label : labels.to_vector()) {
    const auto found = std::find(only.begin(), only.end(), int64_t(label));
    if (found == only.end()) fail("classify", fmt::format("class {} does not occur in the data", label));
    places.push_back(found - only.begin());
  }
  return from_vector(places, labels.shape()).to(labels.device());
}

Totals evaluate(const attacks::Logits& forward, const Config& config, data::Loader& loader,
                const Change& attack, const apps::Tick& tick) {
  Totals totals(config);
  double loss = 0;
  int64_t seen = 0;
  loader.start(0);
  for (data::Batch batch; !apps::stop_requested() && loader.next(batch);) {
    seen += batch.size;
    drop_stand_ins(batch);
    if (batch.size > 0) {
      Tensor images = input_of(config, batch.images);
      const Tensor labels = labels_of(batch);
      if (attack) images = attack(images, labels.to(images.device()), batch.indices);
      NoGrad off;
      const Tensor logits = forward(images).to(DType::f32).to(cpu);
      loss += cross_entropy(logits, labels).item() * double(batch.size);
      add_rows(totals, logits, labels);
    }
    if (tick) tick(seen);
  }
  if (totals.count() > 0) totals.loss = loss / double(totals.count());
  return totals;
}

void require_read(const Totals& totals, int64_t pictures) {
  if (totals.count() == 0 && pictures > 0 && !apps::stop_requested())
    fail("evaluate", "none of the " + std::to_string(pictures) + " pictures can be read");
}

StepInput::StepInput(const Config& c, Device device)
    : images({c.batch_size, c.channels, c.image_size, c.image_size}, DType::u8, device),
      targets(mixes(c) ? Shape{c.batch_size, int64_t(c.classes.size())} : Shape{c.batch_size},
              mixes(c) ? DType::f32 : DType::i64, device) {
  if (c.random_erasing > 0) erased.emplace(Shape{c.batch_size, 4}, DType::i32, device);
  if (mixes(c)) mix.emplace(Shape{c.batch_size, 6}, DType::f32, device);
  if (c.adversarial != Adversarial::none) adversarial = empty(images.tensor().shape(), c.dtype, device);
}

namespace {

// The batch as the model sees it, [B, channels, size, size], or its patches.
Tensor normalised(const Model& model, const Config& c, const StepInput& in, DType dtype, int64_t patch = 0) {
  const nn::Generator& generator = model.generator();
  return normalise_images(in.images.tensor(), c.mean, c.std, dtype,
                          in.erased ? in.erased->tensor() : Tensor(), in.mix ? in.mix->tensor() : Tensor(),
                          generator.seed, generator.of(streams::step::erasing), generator.counter, patch);
}

}  // namespace

void attack_batch(Model& model, const Config& c, StepInput& in, int64_t first) {
  attacks::Settings s;
  s.name = choice_name(c.adversarial);
  s.budget = c.adversarial_budget;
  s.pixel = true;
  s.mean = c.mean;
  s.std = c.std;
  if (c.adversarial == Adversarial::pgd)
    s.options = {{"steps", c.adversarial_steps}, {"step", 2.5 / double(c.adversarial_steps)}};
  s.seed = c.seed;
  std::vector<int64_t> pictures(size_t(c.batch_size));
  std::iota(pictures.begin(), pictures.end(), first);
  const nn::FrozenParameters frozen(model);
  model.set_training(false);
  copy_values(in.adversarial,
              attacks::attack([&](const Tensor& images) { return model(images); },
                              normalised(model, c, in, DType::f32), in.targets.tensor(), s, pictures));
  model.set_training(true);
}

nn::Loss loss(const Model& model, const Config& c, const StepInput& in) {
  // A GPU writes the patches at once; a CPU gathers them where they are multiplied.
  const int64_t patch = in.images.tensor().device().is_cuda() ? model.patch() : 0;
  const Tensor images = in.adversarial.defined() ? in.adversarial : normalised(model, c, in, c.dtype, patch);
  const Tensor logits = model(images).to(DType::f32), &targets = in.targets.tensor();
  return {in.mix ? soft_cross_entropy(logits, targets) : cross_entropy(logits, targets, c.label_smoothing)};
}

void train_on_shapes(const Config& c) {
  const Device device = device_from_name(c.device);
  Model model(model_config(c));
  model.to(device);
  const StepInput input(c, device);
  model.set_step(0, 0);
  apps::train_on_shapes(
      model, c, [&] { return loss(model, c, input); },
      [&] {
        NoGrad off;
        evaluate_on_shapes(model, c, false);
      });
}

void evaluate_on_shapes(const Model& model, const Config& c, bool gradients) {
  const Device device = device_from_name(c.device);
  const Tensor pictures =
      empty({c.eval_batch_size, c.channels, c.image_size, c.image_size}, DType::u8, device);
  Tensor images = normalise_images(pictures, c.mean, c.std, c.dtype);
  if (gradients) images.requires_grad();
  const Tensor logits = model(images).to(DType::f32),
               loss = cross_entropy(logits, empty({c.eval_batch_size}, DType::i64, device));
  if (gradients) loss.backward();
}

namespace {

// The planes of a picture's evaluation view.
std::vector<uint8_t> planes_of(const Config& c, const data::Image& view) {
  std::vector<uint8_t> planes(size_t(c.channels * c.image_size * c.image_size));
  Random unused(0);
  evaluation_transform(c)({view, 0, 0}, unused, planes);
  return planes;
}

}  // namespace

void show_pictures(const Model& model, const Config& c, const data::Dataset& data, int64_t count,
                   nn::AttentionInspection& inspection) {
  constexpr int64_t together = 4;
  const NoGrad off;
  count = std::min(count, data.size());
  for (int64_t i = 0; i < count;) {
    std::vector<uint8_t> batch;
    for (const int64_t end = std::min(count, i + together); i < end; ++i) {
      const std::vector<uint8_t> one =
          planes_of(c, evaluation_view(c, data.get(i * data.size() / count).image));
      batch.insert(batch.end(), one.begin(), one.end());
    }
    inspection.add([&] { model(input_of(c, batch)); });
  }
}

apps::Filmed show_split(const LoadedModel& loaded, const apps::InspectPicturesOptions& o,
                        nn::AttentionInspection& inspection, apps::Conditions& conditions) {
  if (!attends(loaded.config)) fail("inspect", loaded.name + ": the model has no attention layers");
  Config c = loaded.config;
  if (!o.data.empty()) {
    c.data = o.data, c.format = "auto";
    forget_files(c, o.split);
  }
  const auto data = open_data(c, o.split);
  if (data->size() == 0) fail("inspect", std::string("the ") + choice_name(o.split) + " split is empty");
  c.test_split = split_name(*data, o.split);
  conditions.data = o.split == data::Split::train ? "training pictures" : describe_data(c);
  conditions.fingerprint = data::fingerprint(*data, c.data);
  conditions.count = std::min(o.samples, data->size());
  show_pictures(*loaded.model, c, *data, o.samples, inspection);
  const data::Image view = evaluation_view(c, data->get(0).image);
  const int64_t side = c.image_size / c.patch;
  return {view, input_of(c, planes_of(c, view)), side, side, c.model == Architecture::vit ? 1 : 0};
}

Prediction look_at(const LoadedModel& loaded, const data::Image& image, int block,
                   const std::vector<int64_t>& only) {
  const Config& c = loaded.config;
  Prediction p;
  p.view = evaluation_view(c, image);

  NoGrad off;
  const Model& model = *loaded.model;
  const Tensor input = input_of(c, planes_of(c, p.view));
  const Tensor all = model(input).to(DType::f32), logits = only.empty() ? all : restricted(all, only);
  p.logits = floats(logits);
  p.probabilities = floats(softmax(logits));
  if (!std::all_of(p.logits.begin(), p.logits.end(), [](float v) { return std::isfinite(v); }))
    fail("predict", loaded.name + ": the model gives values that are not finite; its training has diverged");
  p.ranking.resize(p.logits.size());
  std::iota(p.ranking.begin(), p.ranking.end(), 0);
  std::stable_sort(p.ranking.begin(), p.ranking.end(),
                   [&](int a, int b) { return p.logits[size_t(a)] > p.logits[size_t(b)]; });

  if (!attends(c)) return p;
  p.grid = int(c.image_size / c.patch);
  // [1, heads, N] to [N - 1]
  p.attention = floats(mean(model.class_attention(input, block), {1}).slice(-1, 1, 1 + p.grid * p.grid));
  return p;
}

}  // namespace pursuit::classify

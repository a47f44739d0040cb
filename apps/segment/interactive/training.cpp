#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "apps/command/checks.h"
#include "apps/pictures/picture_files.h"
#include "apps/segment/interactive/clicked_picture.h"
#include "apps/segment/interactive/commands.h"
#include "apps/segment/interactive/results.h"
#include "apps/study/run_task.h"
#include "apps/training/step_memory.h"
#include "data/fingerprint.h"
#include "data/loader.h"
#include "data/segmentation_augment.h"
#include "engine/base/streams.h"
#include "engine/ops.h"
#include "nn/focal_loss.h"
#include "nn/init.h"

namespace pursuit::segment::interactive {

namespace {

struct Size {
  int64_t height, width;
};
Size shown(const Config& c) {
  return {c.crop_height > 0 ? c.crop_height : c.height, c.crop_width > 0 ? c.crop_width : c.width};
}

int64_t tokens_of(const Config& c) {
  const int64_t token = model_config(c).token();
  return (shown(c).height / token) * (shown(c).width / token);
}

// Draws parts of a picture until one has the object, at least the area of four tokens of it; the tenth is
// taken as it is.
data::SegmentationTransform train_transform(const Config& c) {
  data::SegmentationAugment o;
  o.crop_width = int(shown(c).width);
  o.crop_height = int(shown(c).height);
  o.short_side = int(std::min(c.width, c.height));
  o.long_side = int(std::max(c.width, c.height));
  o.ratio_min = c.ratio_min;
  o.ratio_max = c.ratio_max;
  o.max_class_share = 1;
  o.flip = c.flip;
  o.photometric = c.photometric;
  const int64_t token = model_config(c).token(), least = 4 * token * token;
  return [o, least](const data::SegmentationSample& sample, Random& random, std::span<uint8_t> chw,
                    std::span<int64_t> labels) {
    data::SegmentationSample part;
    for (int draw = 0; draw < 10; ++draw) {
      part = data::augment(sample, o, random);
      if (std::count(part.labels.pixels.begin(), part.labels.pixels.end(), 1) >= least) break;
    }
    data::to_padded(part, data::mean_colour(picture_mean), o.crop_width, o.crop_height, chw, labels);
  };
}

data::LoaderOptions loader_options(const Config& c, const data::Share& share) {
  data::LoaderOptions o;
  o.batch_size = c.batch_size;
  o.height = shown(c).height;
  o.width = shown(c).width;
  o.shuffle = o.drop_last = true;
  o.share = share;
  o.threads = c.workers;
  o.seed = c.seed;
  return o;
}

// The input tensors of all steps.
struct StepInput {
  StepInput(const Config& c, Device device)
      : images({c.batch_size, 3, shown(c).height, shown(c).width}, DType::u8, device),
        labels({c.batch_size, shown(c).height, shown(c).width}, DType::i64, device),
        tokens({c.batch_size, c.train_clicks}, DType::i64, device),
        values({c.batch_size, c.train_clicks}, DType::f32, device),
        clicked({c.batch_size, tokens_of(c)}, DType::f32, device) {}

  Upload images, labels, tokens, values, clicked;
};

Tensor normalised(const Config& c, const StepInput& in) {
  return normalise_images(in.images.tensor(), picture_mean, picture_std, c.dtype);
}
// [B, height, width]
Tensor full_size(const Tensor& logits, const Config& c) {
  const auto [height, width] = shown(c);
  return upsample_bilinear(logits, height, width).reshape({c.batch_size, height, width});
}

nn::Loss loss(const nn::InteractiveSegmenter& model, const Config& c, const StepInput& in) {
  const Tensor logits =
      model(normalised(c, in), nn::TokenClicks{in.tokens.tensor(), in.values.tensor(), in.clicked.tensor()});
  return {nn::normalised_focal_loss(full_size(logits, c), in.labels.tensor(), c.focal_gamma,
                                    data::kIgnoredLabel)};
}

// What to lower if memory is too small.
std::string lower(const Config& c, bool resumed) {
  if (resumed) return "what else takes memory: a resumed run keeps its sizes";
  return fmt::format("--batch-size, --{}height, --{}width, --dim or --depth",
                     c.crop_height > 0 ? "crop-" : "", c.crop_width > 0 ? "crop-" : "");
}

// Returns the config. Throws Error if memory or the number of objects does not suffice.
const Config& checked(const Config& c, bool resumed, const data::SegmentationDataset& train,
                      const data::SegmentationDataset& validation) {
  if (validation.size() == 0) fail("train", fmt::format("the {} split is empty", choice_name(c.validation)));
  const Device device = device_from_name(c.device);
  apps::require_memory("train", device, lower(c, resumed), [&] {
    nn::InteractiveSegmenter model(model_config(c));
    model.to(device);
    const StepInput input(c, device);
    apps::train_on_shapes(
        model, c, [&] { return loss(model, c, input); },
        [&] {
          model.look(empty({1, 3, c.height, c.width}, c.dtype, device));
        });
  });
  apps::check_batch(train.size(), c.batch_size, c.ranks * c.accumulate);
  return c;
}

class ClickTraining : public apps::TaskOf<RunRecord> {
 public:
  ClickTraining(const Config& config, const apps::RunOptions& options, distributed::Communicator& ranks)
      : ranks_(ranks),
        config_(config),
        train_data_(open_data(config, data::Split::train)),
        validation_data_(open_data(config, config.validation)),
        validation_fingerprint_(data::fingerprint(*validation_data_, config.data)),
        model_(model_config(checked(config_, !options.resume.empty(), *train_data_, *validation_data_))),
        share_(apps::share(config, ranks.rank())),
        loader_(*train_data_, train_transform(config), loader_options(config, share_)) {
    config_.validation = validation_data_->split();
    config_.data_fingerprint = apps::same_data(
        config_.data_fingerprint, {data::fingerprint(*train_data_, config_.data), validation_fingerprint_},
        config_.data);
    nn::initialise(model_, config_.init, config_.seed);
    const Device device = device_from_name(config_.device);
    model_.to(device);
    input_.emplace(config_, device);
  }

  nn::Module& model() override { return model_; }

  std::vector<std::string> head() const override {
    return {fmt::format("data   {}: {} training and {} {} objects",
                        config_.data.empty() ? "drawn scenes of materials" : config_.data,
                        train_data_->size(), validation_data_->size(), choice_name(config_.validation)),
            fmt::format("model  {} blocks of width {}, tokens of {} pixels, input {} x {}, {}: {:.2f} M "
                        "parameters",
                        config_.depth, config_.dim, model_.config().token(), config_.width, config_.height,
                        describe_attention(config_), double(model_.parameter_count()) / 1e6)};
  }

  int64_t steps_per_epoch() const override { return loader_.steps_per_epoch(); }
  void start_epoch(int64_t epoch, int64_t step) override { loader_.start_step(epoch, step); }

  nn::SentBatch next_batch(int64_t step, int64_t batch) override {
    loader_.next(batch_);
    input_->images.send(batch_.images.data());
    input_->labels.send(batch_.labels.data());
    const ClickNumbers n = robot_clicks(step, batch);
    input_->tokens.send(n.tokens.data());
    input_->values.send(n.values.data());
    input_->clicked.send(n.clicked.data());
    return {batch_.size};
  }

  double waited_for_data() const override { return loader_.waited(); }

  nn::Loss loss() override { return interactive::loss(model_, config_, *input_); }

  apps::Validation evaluate() override {
    const Curves mine =
        click_curves(model_, config_, *validation_data_, {}, {}, apps::share_of_evaluation(ranks_));
    // Ranks exchange whether an object was counted, and the bits of its numbers: each is 0 in all ranks but
    // one.
    constexpr size_t width = size_t(data::kMostClicks) + 1;
    std::vector<int64_t> bits(mine.of_objects.size() * width);
    for (size_t i = 0; i < mine.of_objects.size(); ++i) {
      bits[i * width] = !mine.of_objects[i].empty();
      std::transform(mine.of_objects[i].begin(), mine.of_objects[i].end(), &bits[i * width + 1],
                     [](double iou) { return std::bit_cast<int64_t>(iou); });
    }
    apps::add_up(ranks_, bits);
    std::vector<data::ClickCurve> curves;
    for (size_t i = 0; i < bits.size(); i += width) {
      if (bits[i] == 0) continue;
      curves.emplace_back();
      for (size_t k = 1; k < width; ++k) curves.back().push_back(std::bit_cast<double>(bits[i + k]));
    }
    apps::Validation v;
    v.complete = mine.complete && !curves.empty();
    if (!v.complete) return v;
    results_.set_curves(curves);
    const double clicks = results_.at(0.85)->clicks;
    for (const int64_t k : {1, 5, 20})
      v.metrics.push_back({fmt::format("mean_iou_{}", k), fmt::format("val/mean_iou_{}", k),
                           results_.mean_iou[size_t(k - 1)]});
    v.metrics.push_back({"noc_85", "val/noc_85", clicks});
    v.score = results_.mean_iou[4];
    v.text = fmt::format("{} mIoU after 5 clicks {:.2f} %  clicks to 85 % {:.2f}",
                         choice_name(config_.validation), 100 * v.score, clicks);
    return v;
  }

  void finish(const std::string& folder, int64_t step) override {
    TaskOf::finish(folder, step);
    apps::note_replaced("training", *train_data_);
    apps::note_replaced("validation", *validation_data_);
  }

 private:
  const Config& settings() const override { return config_; }
  void fill(Results& results) const override {
    results.data = describe_data(config_, config_.validation);
    results.options = fmt::format("--split {}", choice_name(config_.validation));
    if (config_.test_limit > 0) results.options += fmt::format(" --limit {}", config_.test_limit);
    results.fingerprint = validation_fingerprint_;
    results.robot = describe(Robot{});
    results.answers = describe_attention(config_);
    results.count = results_.count;
    results.mean_iou = results_.mean_iou;
    results.reached = results_.reached;
  }
  std::string summary(int64_t step) const override {
    return fmt::format(
        "{}: mIoU {:.2f} % after 5 clicks, {:.2f} clicks to 85 %, {:.2f} to 90 %, {} objects, "
        "after {} steps",
        describe_data(config_, config_.validation), 100 * results_.mean_iou[4], results_.at(0.85)->clicks,
        results_.at(0.9)->clicks, results_.count, step);
  }

  // Clicks of the robot user on the batch that was sent, into what the model, as it is, gets wrong. The model
  // looks in evaluation mode, as in RITM, so that its running statistics are those of the loss alone.
  ClickNumbers robot_clicks(int64_t step, int64_t batch) {
    const auto [height, width] = shown(config_);
    const int64_t token = model_.config().token();
    const uint64_t first =
        streams::clicks.at(uint64_t(step * config_.accumulate * config_.ranks + share_.first + batch) << 20);
    Random of_batch(config_.seed, first);
    const int64_t rounds = 1 + of_batch.below(config_.train_clicks);
    std::vector<data::Image> objects, masks;
    std::vector<Random> random;
    std::vector<std::vector<data::Click>> clicks(size_t(config_.batch_size));
    for (size_t i = 0; i < clicks.size(); ++i) {
      objects.emplace_back(int(width), int(height), 1);
      std::copy_n(batch_.labels.begin() + int64_t(i) * height * width, height * width,
                  objects[i].pixels.begin());
      masks.emplace_back(int(width), int(height), 1);
      random.emplace_back(config_.seed, first + 1 + i);
    }
    const NoGrad off;
    model_.set_training(false);
    const auto looked = model_.look(normalised(config_, *input_));
    for (int64_t round = 0;; ++round) {
      for (size_t i = 0; i < clicks.size(); ++i)
        if (const auto click = data::next_click(objects[i], masks[i], clicks[i], &random[i]))
          clicks[i].push_back(*click);
      const ClickNumbers n = click_numbers(clicks, config_.train_clicks, token, looked.height, looked.width);
      if (round + 1 == rounds) {
        model_.set_training(true);
        return n;
      }
      const Device device = looked.queries.device();
      const auto on_device = [&]<class T>(const std::vector<T>& values) {
        return from_vector(values, {config_.batch_size, int64_t(values.size()) / config_.batch_size})
            .to(device);
      };
      const Tensor logits = full_size(
          model_.answer(looked, {on_device(n.tokens), on_device(n.values), on_device(n.clicked)}), config_);
      const Tensor on_host = logits.to(cpu);
      for (size_t i = 0; i < masks.size(); ++i)
        masks[i] = mask_of(on_host, int64_t(i), int(height), int(width));
    }
  }

  distributed::Communicator& ranks_;
  Config config_;
  std::unique_ptr<data::SegmentationDataset> train_data_, validation_data_;
  std::string validation_fingerprint_;
  nn::InteractiveSegmenter model_;
  data::Share share_;
  data::Loader loader_;
  data::Batch batch_;
  std::optional<StepInput> input_;
  Results results_;  // curves of the last evaluation
};

}  // namespace

int train(const Config& config, const apps::RunOptions& options, distributed::Communicator& ranks) {
  return apps::train<ClickTraining>(config, options, ranks);
}

}  // namespace pursuit::segment::interactive

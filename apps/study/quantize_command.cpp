#include "apps/study/quantize_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "apps/command/choice.h"
#include "apps/command/options.h"
#include "apps/study/reproduce.h"
#include "apps/study/run_commands.h"

namespace pursuit::apps {

namespace {

int64_t bytes_of(const nn::Module& model) {
  int64_t bytes = 0;
  for (const nn::NamedTensor& t : model.state()) bytes += t.tensor->bytes();
  return bytes;
}

}  // namespace

void add_quantize_options(CLI::App& command, QuantizeOptions& o, const std::string& sample) {
  command.add_option("--checkpoint", o.checkpoint, "Folder of the run, or a checkpoint file")->required();
  command.add_option("--out", o.out, "Folder of the quantised run")->required();
  command.add_option("--bits", o.bits, "Bits of weights and activations, 2 to 8 each")
      ->capture_default_str()
      ->check(CLI::Validator(
          [](const std::string& bits) {
            return parse_bits(bits)
                       ? std::string()
                       : "got '" + bits + "', need weights and activations of 2 to 8 bits, such as w8a8";
          },
          ""));
  add_number(command, "--calibrate", o.samples,
             "Number of training " + sample + " from which the activations' ranges are taken", Range{1, 1e9});
  add_number(command, "--batch-size", o.batch_size,
             "Number of these in a batch; the ranges are a running mean over batches", Range{1, 1 << 24});
  add_number(command, "--seed", o.seed, "Seed of the choice of " + sample, any_seed);
  add_choice<nn::WeightRange>(command, "--weight-range", o.weights.range, "Range of weights")
      ->default_str(choice_name(o.weights.range));
  add_choice<nn::Granularity>(command, "--granularity", o.weights.granularity,
                              "What shares a scale of weights")
      ->default_str(choice_name(o.weights.granularity));
  add_choice<nn::RangeEstimator>(command, "--activation-range", o.ranges.estimator,
                                 "Range of activations in a batch")
      ->default_str(choice_name(o.ranges.estimator));
  add_number(command, "--percentile", o.ranges.percentile,
             "--activation-range percentile: the range is from 100 minus this percentile to this percentile",
             above(50, 100));
  command.parse_complete_callback([&command, &o] {
    if (command.count("--percentile") > 0 && o.ranges.estimator != nn::RangeEstimator::percentile)
      throw CLI::ValidationError("--percentile", "has no effect without --activation-range percentile");
  });
  command.add_flag(
      "--float-head", o.float_head,
      "Keep the output layer in floating point, as published for language models, and an embedding that "
      "it shares");
  command.add_option("--data", o.data, "Other training data (default: the run's)");
  add_weights_option(command, o.load);
  add_number(command, "--threads", o.load.threads, "CPU threads (0: all)", any_threads);
}

std::string QuantizeOptions::arguments() const {
  std::string text = fmt::format(
      "--bits {} --calibrate {} --batch-size {} --seed {} --weight-range {} --granularity {} "
      "--activation-range {}",
      bits, samples, batch_size, seed, choice_name(weights.range), choice_name(weights.granularity),
      choice_name(ranges.estimator));
  if (ranges.estimator == nn::RangeEstimator::percentile)
    text += fmt::format(" --percentile {}", ranges.percentile);
  if (float_head) text += " --float-head";
  if (!data.empty()) text += " --data " + quoted(data);
  return text;
}

std::optional<std::pair<int64_t, int64_t>> parse_bits(const std::string& bits) {
  const auto digit = [&](size_t at) { return int64_t(bits[at] - '0'); };
  if (bits.size() != 4 || bits[0] != 'w' || bits[2] != 'a' || digit(1) < 2 || digit(1) > 8 || digit(3) < 2 ||
      digit(3) > 8)
    return std::nullopt;
  return std::pair(digit(1), digit(3));
}

void print_quantized(const QuantizeOptions& o, const nn::Module& before, const nn::Module& after,
                     const CalibrationBatches& shown) {
  int64_t ranges = 0;
  for (const nn::NamedTensor& t : after.buffers()) ranges += t.name.ends_with(".grid");
  const double own = double(bytes_of(after)), theirs = double(bytes_of(before));
  print(
      "{}: {}, {} ranges of activations from {} samples in {} batches; weights {:.2f} MB instead of {:.2f} "
      "MB "
      "({:.3f} times)\n",
      o.out, o.bits, ranges, shown.samples, shown.batches, own / 1e6, theirs / 1e6, own / theirs);
}

}  // namespace pursuit::apps

#include <fmt/format.h>

#include <algorithm>

#include "apps/pictures/picture_files.h"
#include "apps/segment/interactive/commands.h"
#include "apps/segment/interactive/results.h"
#include "apps/study/reproduce.h"
#include "apps/terminal/progress.h"
#include "data/fingerprint.h"
#include "engine/program/describe.h"

// `segment interactive eval` writes its results to stdout and, for a run's folder, to eval.json:
//   {"evaluations": [{"data", "fingerprint", "count", "weights", "step", "dtype", "options",
//                     "made_by", "run", "robot", "answers", "mean_iou": [after 1 click, 2, ...],
//                     "targets": [{"iou", "clicks", "never"}]}]}
namespace pursuit::segment::interactive {

namespace {

class Evaluation : public apps::Evaluation<RunRecord> {
 public:
  explicit Evaluation(const EvalOptions& options) : apps::Evaluation<RunRecord>(options), options_(options) {}

 private:
  void open() override {
    config_ = options_.of(config_);
    config_.limit = config_.test_limit = options_.limit;
    data_ = open_data(config_, options_.split);
    if (data_->size() == 0) fail("eval", fmt::format("the {} split is empty", choice_name(options_.split)));
    loaded_.model->set_answers(model_config(config_).answers);
    results_ = measured();
    results_.data = describe_data(config_, data_->split());
    results_.fingerprint = data::fingerprint(*data_, config_.data);
    results_.options = options_.arguments();
    results_.robot = describe(robot());
    results_.answers = describe_attention(config_);
    if (options_.quiet) return;
    apps::note("pursuit {} on {}, {}\n", PURSUIT_VERSION, pursuit::describe(device_from_name(config_.device)),
               name_of(config_.dtype));
    apps::note("model  {}: {}, step {}\n", loaded_.name, results_.answers, loaded_.state.step);
    apps::note("data   {}: {} objects; robot user: {}\n", results_.data, data_->size(), results_.robot);
  }

  bool measure() override {
    apps::Progress bar("objects", 0, data_->size(), {.quiet = options_.quiet, .unit = "objects"});
    Curves curves = click_curves(*loaded_.model, config_, *data_, robot(), apps::ticker(bar, 0, ""));
    if (!curves.complete) return false;
    bar.finish();
    apps::note_replaced("evaluated", *data_);
    std::erase_if(curves.of_objects, [](const data::ClickCurve& curve) { return curve.empty(); });
    results_.set_curves(curves.of_objects);
    keep(results_);
    return true;
  }

  Robot robot() const { return {options_.robot_seed.has_value(), options_.robot_seed.value_or(0)}; }

  nlohmann::ordered_json json() const override { return to_json(results_); }

  void print() const override {
    const std::vector<double>& iou = results_.mean_iou;
    apps::print(
        "{}, {} objects; {}; robot user: {}\n"
        "mIoU after 1, 2, 3, 5, 10, 15, 20 clicks: {:.2f} {:.2f} {:.2f} {:.2f} {:.2f} {:.2f} {:.2f} %\n\n{}",
        results_.data, results_.count, results_.answers, results_.robot, 100 * iou[0], 100 * iou[1],
        100 * iou[2], 100 * iou[4], 100 * iou[9], 100 * iou[14], 100 * iou[19],
        apps::Lines{apps::to_text(clicks_table(results_))});
  }

  const EvalOptions& options_;
  std::unique_ptr<data::SegmentationDataset> data_;
  Results results_;
};

}  // namespace

Config EvalOptions::of(Config c) const {
  c.skip_bad = c.skip_bad || skip_bad;
  if (!data.empty()) c.format = "auto";
  if (!format.empty()) c.format = format;
  if (propagate) c.propagate = *propagate;
  if (clamp) c.clamp = *clamp;
  if (key_iterations) c.key_iterations = *key_iterations;
  if (theta) c.theta = *theta;
  if (theta && c.key_iterations == 0)
    fail("eval", "--theta weighs what key iterations change, and there are none: give --key-iterations too");
  if (!data.empty()) c.noise = 0;  // is added to drawn scenes alone
  if (noise) c.noise = *noise;
  validate(c);
  return c;
}

std::string EvalOptions::arguments() const {
  std::string text;
  const auto add = [&](const char* name, const auto& value) { text += fmt::format(" --{} {}", name, value); };
  if (!data.empty()) add("data", apps::quoted(data));
  if (!format.empty()) add("format", format);
  if (split != data::Split::test) add("split", choice_name(split));
  if (skip_bad) text += " --skip-bad";
  if (limit > 0) add("limit", limit);
  if (robot_seed) add("robot-seed", *robot_seed);
  if (propagate) add("propagate", *propagate);
  if (clamp) add("clamp", *clamp);
  if (key_iterations) add("key-iterations", *key_iterations);
  if (theta) add("theta", *theta);
  if (noise) add("noise", *noise);
  if (const std::string how = load.arguments(); !how.empty()) text += " " + how;
  return text.empty() ? text : text.substr(1);
}

int eval(const EvalOptions& options) { return Evaluation(options).run(); }

}  // namespace pursuit::segment::interactive

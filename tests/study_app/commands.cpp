#include <fmt/format.h>

#include <tuple>

#include "apps/terminal/progress.h"
#include "engine/base/streams.h"
#include "nn/metrics.h"
#include "tests/study_app/spirals.h"

namespace pursuit::spirals {

namespace {

std::string percent(double fraction) { return fmt::format("{:.2f} %", 100 * fraction); }

apps::Table to_table(const std::vector<Results>& all) {
  apps::Table table{{"points", "noise", "weights", "step", "seed", "accuracy"}, {}};
  for (const Results& r : all)
    table.rows.push_back({std::to_string(r.count), fmt::format("{}", r.noise), r.weights,
                          std::to_string(r.step), std::to_string(r.seed), percent(r.accuracy)});
  return table;
}

std::vector<apps::Curve> curves() {
  return {{.title = "Loss",
           .unit = "cross-entropy",
           .lines = {{.key = "loss", .name = "training", .smooth = true}}},
          apps::percent_curve("Accuracy", "test_accuracy", "test")};
}

}  // namespace

apps::RunPage page_of(const RunRecord& r) {
  apps::RunPage page{.title = "Two spirals", .subtitle = r.name};
  page.curves = curves();
  for (const Results& e : r.newest) {
    if (e.noise == 0) page.highlights.push_back({"Accuracy", percent(e.accuracy), e.data});
    page.commands.push_back("spirals eval --checkpoint " + apps::quoted(r.folder) + " " + e.options);
  }
  return page;
}

apps::Cells cells_of(const Results& r) {
  return {{"noise", fmt::format("{}", r.noise)},
          {"seed", std::to_string(r.seed)},
          {"accuracy", percent(r.accuracy)}};
}

apps::ComparedRun compared(const RunRecord& run) {
  const std::string own = apps::evaluated_weights(*run.config);
  apps::ComparedRun c = apps::compared_run(run);
  for (const Results& r : run.newest) {
    apps::MeasuredWith with = apps::measured_with(r, "points", own);
    with.emplace_back("noise", fmt::format("{}", r.noise));
    c.add({.name = "accuracy", .percent = true, .with = with}, r.accuracy, 100);
    c.measured(r, own);
  }
  return c;
}

apps::ComparisonPage comparison_page(const std::vector<RunRecord>&) {
  return {.title = "Comparison of spirals", .curves = curves()};
}

nlohmann::ordered_json to_json(const Results& r) {
  nlohmann::ordered_json json = apps::to_json(r);
  json.update({{"seed", r.seed}, {"noise", r.noise}, {"accuracy", r.accuracy}});
  return json;
}

void from_json(const nlohmann::ordered_json& json, std::vector<Results>& all) {
  Results r;
  static_cast<apps::Conditions&>(r) = apps::conditions_from_json(json);
  r.seed = apps::member_of<uint64_t>(json, "seed");
  r.noise = apps::member_of<double>(json, "noise");
  r.accuracy = apps::member_of<double>(json, "accuracy");
  all.push_back(std::move(r));
}

bool alike(const Results& a, const Results& b) {
  return apps::alike(a, b) && std::tie(a.seed, a.noise) == std::tie(b.seed, b.noise);
}

void measure(const Net& model, const Config& config, uint64_t seed, double noise, Results& r) {
  const NoGrad off;
  Points points = draw_points(config.test_points, config.turns, Random(seed, streams::text.first));
  Random random(seed, streams::text.first + 1);
  for (float& x : points.xy) x += float(noise * random.normal());
  const Tensor logits = model(
      from_vector(points.xy, {config.test_points, 2}).to(config.dtype).to(device_from_name(config.device)));
  nn::ConfusionMatrix matrix(2);
  matrix.add(argmax(logits.to(cpu).to(DType::f32)), from_vector(points.labels, {config.test_points}));
  r.data = fmt::format("spirals of {} turns", config.turns);
  r.options = fmt::format("--seed {} --noise {}", seed, noise);
  r.count = config.test_points;
  r.seed = seed;
  r.noise = noise;
  r.accuracy = matrix.overall_accuracy();
}

namespace {

class Evaluation : public apps::Evaluation<RunRecord> {
 public:
  explicit Evaluation(const EvalOptions& options) : apps::Evaluation<RunRecord>(options), options_(options) {}

 private:
  void open() override {}
  bool measure() override {
    apps::Progress bar("noise", 0, int64_t(options_.noise.size()),
                       {.quiet = options_.quiet, .unit = "points"});
    for (const double noise : options_.noise) {
      if (apps::stop_requested()) return false;
      results_.push_back(measured());
      spirals::measure(*loaded_.model, config_, options_.seed, noise, results_.back());
      keep(results_.back());
      bar.update(int64_t(results_.size()), config_.test_points);
    }
    return true;
  }
  nlohmann::ordered_json json() const override {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const Results& r : results_) json.push_back(to_json(r));
    return json;
  }
  void print() const override { apps::print("{}", apps::Lines{apps::to_text(to_table(results_))}); }

  const EvalOptions& options_;
  std::vector<Results> results_;
};

}  // namespace

int eval(const EvalOptions& options) { return Evaluation(options).run(); }

int predict(const PredictOptions& options) {
  if (options.points.size() % 2 != 0)
    fail("predict", fmt::format("got {} numbers, need two for each point", options.points.size()));
  const auto loaded = apps::load_model<Config>(options.checkpoint, options.load);
  const int64_t count = int64_t(options.points.size() / 2);
  const std::vector<float> xy(options.points.begin(), options.points.end());
  const NoGrad off;
  const auto logits = (*loaded.model)(
      from_vector(xy, {count, 2}).to(loaded.config.dtype).to(device_from_name(loaded.config.device)));
  const std::vector<double> p = softmax(logits.to(DType::f32)).to_vector();
  for (size_t i = 0; i < size_t(count); ++i)
    apps::print("{},{}: spiral {} ({:.1f} %)\n", xy[2 * i], xy[2 * i + 1], p[2 * i] >= p[2 * i + 1] ? 0 : 1,
                100 * std::max(p[2 * i], p[2 * i + 1]));
  return 0;
}

}  // namespace pursuit::spirals

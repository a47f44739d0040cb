#include "nn/attacks/search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/ops.h"

namespace pursuit::attacks {

namespace {

std::vector<Row> rows_of(const Tensor& x) {
  const Tensor host = x.to(DType::f32).to(cpu).contiguous();
  const int64_t width = host.size(0) ? host.numel() / host.size(0) : 0;
  std::vector<Row> rows;
  for (int64_t b = 0; b < host.size(0); ++b) {
    const float* row = host.data<float>() + b * width;
    rows.emplace_back(row, row + width);
  }
  return rows;
}

}  // namespace

double length(const Row& row, Norm norm) {
  double largest = 0, squares = 0;
  for (const float v : row) {
    largest = std::max(largest, double(std::abs(v)));
    squares += double(v) * v;
  }
  return norm == Norm::linf ? largest : std::sqrt(squares);
}

double cross_entropy(const Scores& s, float* slope) {
  const double largest = *std::max_element(s.logits, s.logits + s.classes);
  double sum = 0;
  for (int64_t c = 0; c < s.classes; ++c) sum += std::exp(s.logits[c] - largest);
  for (int64_t c = 0; c < s.classes; ++c) slope[c] = float(std::exp(s.logits[c] - largest) / sum);
  slope[s.label] -= 1;
  return largest + std::log(sum) - s.logits[s.label];
}

Search::Search(const Victim& victim, const Tensor& x) : victim_(victim), x_(x), shape_(x.shape()) {
  if (x.ndim() != 4) fail("attack", "the pictures are " + x.str() + ", need [B, C, H, W]");
  for (const double label : victim.labels.to_vector()) labels_.push_back(int64_t(label));
  if (int64_t(labels_.size()) != x.size(0))
    fail("attack", std::to_string(labels_.size()) + " labels do not fit the pictures " + x.str());
  origins_ = rows_of(x);
  found_.resize(origins_.size());
  if (origins_.empty()) return;
  logits_ = logits_at(x);
  classes_ = int64_t(logits_[0].size());
  if (classes_ < 2) fail("attack", "the model knows one class only, need at least two");
  for (int64_t i = 0; i < size(); ++i)
    if (Scores{logits_[size_t(i)].data(), classes_, labels_[size_t(i)]}.margin() < 0) found(i, origin(i));
}

std::vector<int64_t> Search::other_classes(int64_t picture) const {
  const Row& logits = logits_[size_t(picture)];
  std::vector<int64_t> order(static_cast<size_t>(classes_));
  std::iota(order.begin(), order.end(), int64_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return logits[size_t(a)] > logits[size_t(b)]; });
  std::erase(order, labels_[size_t(picture)]);
  return order;
}

std::vector<int64_t> Search::right() const {
  std::vector<int64_t> pictures;
  for (int64_t i = 0; i < size(); ++i)
    if (is_right(i)) pictures.push_back(i);
  return pictures;
}

Tensor Search::batch(const std::vector<Row>& points) const {
  std::vector<float> values;
  for (const Row& point : points) values.insert(values.end(), point.begin(), point.end());
  return from_vector(values, {int64_t(points.size()), channels(), height(), width()})
      .to(x_.dtype())
      .to(x_.device());
}

Tensor Search::result() const {
  std::vector<Row> forms;
  for (int64_t i = 0; i < size(); ++i) forms.push_back(is_right(i) ? origin(i) : found_[size_t(i)]);
  return forms.empty() ? x_ : batch(forms);
}

std::vector<Row> Search::logits_at(const Tensor& forms) const {
  NoGrad off;
  std::vector<Row> rows = rows_of(victim_.logits(forms));
  for (const Row& row : rows)
    if (!std::all_of(row.begin(), row.end(), [](float v) { return std::isfinite(v); }))
      fail("attack", "the logits are not finite");
  return rows;
}

void Search::ask(const std::vector<int64_t>& pictures, const std::vector<Row>& points,
                 const Judge& judge) const {
  const std::vector<Row> logits = logits_at(batch(points));
  for (size_t i = 0; i < pictures.size(); ++i)
    judge(int64_t(i), {logits[i].data(), classes_, labels_[size_t(pictures[i])]});
}

std::vector<Row> Search::climb(const std::vector<int64_t>& pictures, const std::vector<Row>& points,
                               const Slope& judge) const {
  return rows_of(input_gradient(victim_, batch(points), [&](const Tensor& logits) {
    const std::vector<Row> rows = rows_of(logits);
    std::vector<float> slopes(rows.size() * size_t(classes_));
    for (size_t i = 0; i < pictures.size(); ++i)
      judge(int64_t(i), {rows[i].data(), classes_, labels_[size_t(pictures[i])]},
            slopes.data() + i * size_t(classes_));
    return from_vector(slopes, logits.shape()).to(logits.device());
  }));
}

void Search::project(Row& point, int64_t picture, Norm norm, double eps) const {
  const Row& from = origin(picture);
  double factor = 1;
  if (norm == Norm::l2) {
    double squares = 0;
    for (size_t i = 0; i < point.size(); ++i) squares += std::pow(double(point[i]) - from[i], 2);
    if (squares > eps * eps) factor = eps / std::sqrt(squares);
  }
  const float bound = float(eps);
  for (size_t i = 0; i < point.size(); ++i) {
    float change = point[i] - from[i];
    change = norm == Norm::linf ? std::clamp(change, -bound, bound) : float(change * factor);
    point[i] = from[i] + change;
    if (victim_.clip) point[i] = std::clamp(point[i], 0.0f, 1.0f);
  }
}

Row Search::start(int64_t picture, Norm norm, double eps, uint64_t i, Part part) const {
  Random random = this->random(picture, streams::attack::spsa_steps, i);
  Row point = origin(picture), direction(point.size());
  for (float& v : direction) v = float(norm == Norm::linf ? random.uniform(-1, 1) : random.normal());
  const double size = length(direction, norm) + 1e-12,
               share = part == Part::ball ? std::pow(random.uniform(), 1.0 / double(point.size())) : 1;
  for (size_t k = 0; k < point.size(); ++k) point[k] += float(eps * share * direction[k] / size);
  project(point, picture, norm, eps);
  return point;
}

int64_t possible_targets(int64_t wanted, int64_t classes) {
  return classes > 0 ? std::min(wanted, classes - 1) : wanted;
}

void check_starts(int64_t starts) {
  constexpr auto most = int64_t(streams::attack::spsa_steps.size());
  if (starts > most)
    fail("attack",
         std::to_string(starts) + " starts (targets times restarts), need at most " + std::to_string(most));
}

Random Search::random(int64_t picture, const streams::Range& draws, uint64_t i) const {
  return Random(victim_.seed, stream_of(victim_, picture, draws, i));
}

}  // namespace pursuit::attacks

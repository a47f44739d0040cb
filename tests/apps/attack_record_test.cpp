#include "apps/classify/attack_record.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/run/files.h"
#include "engine/ops.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using namespace pursuit::classify;

namespace {

// Class 1 where the mean of the four entries is above 0, else class 0.
Tensor by_sign(const Tensor& x) {
  const Tensor m = mean(x, {1, 2, 3}).reshape({x.size(0), 1});
  return concat({m * -1.0, m}, 1);
}

Tensor flat(const std::vector<float>& values) {
  std::vector<float> entries;
  for (const float v : values) entries.insert(entries.end(), 4, v);
  return from_vector(entries, {int64_t(values.size()), 1, 2, 2});
}

nlohmann::json record_of(const attacks::Settings& s, const std::vector<int64_t>& labels,
                         const std::string& file) {
  // Picture 5 falls, 6 stays right, 7 is wrong from the start, 8 changes its prediction though it was wrong.
  const Tensor before = flat({0.25f, -0.5f, 0.5f, -0.25f}), after = flat({-0.25f, -1, 0.25f, 0.5f});
  AttackRecord record(s);
  for (int query = 0; query < 3; ++query) record.count(before);
  record.add(before.slice(0, 0, 2), after.slice(0, 0, 2), from_vector(labels, {4}).slice(0, 0, 2), {5, 6},
             by_sign);
  record.add(before.slice(0, 2, 4), after.slice(0, 2, 4), from_vector(labels, {4}).slice(0, 2, 4), {7, 8},
             by_sign);
  // Changes of 0.5, 0.5, 0.25 and 0.75 in four entries each.
  CHECK(record.mean_l2() ==
        doctest::Approx(2 * (0.5 + 0.5 + 0.25 + 0.75) / 4 * (s.pixel ? s.std[0] : 1)).epsilon(1e-6));
  record.append_to(file, "runs/a", "runs/b");
  const std::string text = apps::read_file(file);
  REQUIRE(text.ends_with("\n"));
  return nlohmann::json::parse(text.substr(text.rfind('\n', text.size() - 2) + 1));
}

}  // namespace

TEST_CASE("attack record: pictures that fell, with their lengths, and queries") {
  const TemporaryFolder f;
  attacks::Settings s;
  s.name = "pgd";
  s.budget = 8;
  s.options = {{"steps", int64_t(3)}};
  s.mean = {0.5};
  s.std = {0.2};
  const std::vector<int64_t> labels = {1, 0, 0, 1};

  s.pixel = true;  // by the labels; lengths are of pixels, 0.2 times those of normalised entries
  const nlohmann::json pixel = record_of(s, labels, f.file("records"));
  CHECK(pixel["run"] == "runs/a");
  CHECK(pixel["attacked_by"] == "runs/b");
  CHECK(pixel["attack"] == "pgd");
  CHECK(pixel["space"] == "pixel");
  CHECK(pixel["budget"] == 8);
  CHECK(pixel["settings"] == "3 steps of 0.15 of the budget");
  CHECK(pixel["arguments"] == "--pgd-steps 3");
  CHECK(pixel["pictures"] == 4);
  CHECK(pixel["right"] == 2);
  CHECK(pixel["queries"] == 3);
  CHECK(pixel["fell"] == std::vector<int64_t>{5});
  REQUIRE(pixel["l2"].size() == 1);
  CHECK(pixel["l2"][0].get<double>() == doctest::Approx(0.2));
  CHECK(pixel["linf"][0].get<double>() == doctest::Approx(0.1));

  s.pixel = false;  // by the model's own predictions, in units of the normalised pictures
  const nlohmann::json own = record_of(s, labels, f.file("records"));
  CHECK(own["space"] == "normalised");
  CHECK(own["right"] == 4);
  CHECK(own["fell"] == std::vector<int64_t>{5, 8});
  REQUIRE(own["l2"].size() == 2);
  CHECK(own["l2"][1].get<double>() == doctest::Approx(1.5));
  CHECK(own["linf"][1].get<double>() == doctest::Approx(0.75));
  const std::string both = apps::read_file(f.file("records"));
  CHECK(std::count(both.begin(), both.end(), '\n') == 2);

  CHECK(AttackRecord(s).mean_l2() == 0);
  CHECK(message_of([&] {
          AttackRecord(s).append_to(f.file("none/records"), "runs/a");
        }).find("--attack-records") != std::string::npos);
}

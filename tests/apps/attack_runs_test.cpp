// Which attacks `classify eval` runs, and on which model: transfer, the check of masking.
#include "apps/classify/attack_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "apps/classify/results.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using namespace pursuit::classify;

namespace {

std::string listed(const EvalOptions& o) {
  std::string text;
  for (const attacks::Settings& s : attack_runs(o, Config{}))
    text += fmt::format("{} {:g} {}; ", s.name, s.budget, s.arguments());
  return text;
}

// A run on the built-in shapes.
std::string trained(const TemporaryFolder& f, const std::string& name, const std::string& attention,
                    int64_t image_size = 0) {
  Config c;
  c.attention = attention;
  c.image_size = image_size;
  c.dim = 16;
  c.depth = 1;
  c.heads = 2;
  c.patch = 8;
  c.limit = 64;
  c.test_limit = 24;
  c.batch_size = 16;
  c.steps = 30;
  c.lr = 0.01;
  c.mixup = c.cutmix = 0;
  c.workers = 0;
  c.threads = 1;
  c.device = "cpu";
  apps::RunOptions run;
  run.out = f.file(name);
  run.quiet = true;
  REQUIRE(train(c, run) == 0);
  return run.out;
}

}  // namespace

TEST_CASE("attacks of eval: every attack at its budgets, none twice") {
  EvalOptions o;
  o.attacks = {"pgd", "noise", "pgd-l2", "fgsm"};
  o.budgets = {4, 2, 4};
  o.l2_budgets = {0.5};
  o.attack_options = {{"noise", {{"amplitude", 0.2}}}};
  CHECK(listed(o) == "fgsm 2 ; fgsm 4 ; noise 0.2 --noise-amplitude 0.2; pgd 2 ; pgd 4 ; pgd-l2 0.5 ; ");
  CHECK(listed(EvalOptions{}).empty());
  o.attack_options["square"] = {{"queries", int64_t(5)}};
  CHECK(message_of([&] { listed(o); }).find("--square-queries has no effect") != std::string::npos);
  o.attack_options.clear();
  o.attacks = {"pgd-l2"};
  CHECK(message_of([&] { listed(o); }).find("--budgets has no effect without an attack in l_inf") !=
        std::string::npos);
  o.budgets.clear();
  CHECK(listed(o) == "pgd-l2 0.5 ; ");
  o.attacks = {"pgd", "noise"};
  CHECK(message_of([&] { listed(o); }).find("--l2-budgets has no effect without an attack in l2") !=
        std::string::npos);
  o.attacks = {"pgdd"};
  CHECK(message_of([&] { listed(o); }).find("pgdd") != std::string::npos);
}

TEST_CASE("attacks of eval: --masking-check adds what the notes compare") {
  EvalOptions o;
  o.attacks = {"pgd"};
  o.budgets = {2, 8};
  o.masking_check = true;
  o.l2_budgets = {0.5};
  CHECK(message_of([&] { listed(o); }).find("--l2-budgets has no effect") != std::string::npos);
  o.l2_budgets.clear();
  CHECK(message_of([&] { listed(o); }).find("--attack-space pixel") != std::string::npos);
  o.attack_space = AttackSpace::pixel;
  CHECK(listed(o) == "pgd 2 ; pgd 8 ; apgd-ce 8 ; square 8 ; pgd 8 --pgd-steps 200; pgd 255 ; ");
  o.attacks.clear();
  o.attack_options = {{"pgd", {{"steps", int64_t(5)}}}};
  CHECK(listed(o) ==
        "apgd-ce 8 ; square 8 ; pgd 8 --pgd-steps 5; pgd 8 --pgd-steps 50; pgd 255 --pgd-steps 5; ");
  for (const int64_t steps : {0, 10001}) {
    o.attack_options = {{"pgd", {{"steps", steps}}}};
    CHECK(message_of([&] { listed(o); }).find("--pgd-steps; give 1 to 10000") != std::string::npos);
  }
}

TEST_CASE("attacks of eval: transfer from a run to itself is the attack on it; from another it is weaker") {
  const TemporaryFolder f;
  const std::string softmax = trained(f, "softmax", "softmax"), rpc = trained(f, "rpc", "rpc");
  EvalOptions o;
  o.checkpoint = softmax;
  o.attacks = {"fgsm", "pgd", "apgd-ce", "square"};
  o.budgets = {16};
  o.attack_options = {{"square", {{"queries", int64_t(20)}}}};
  o.attack_space = AttackSpace::pixel;
  o.quiet = o.json = true;
  o.load.device = "cpu";
  const auto attacked = [&](const std::string& by) {
    o.attacked_by = by;
    REQUIRE(eval(o) == 0);
    std::vector<Results::Attacked> all = apps::read_evaluations<Results>(softmax).back().attacked;
    const std::string name = by.empty() ? "" : by.substr(by.rfind('/') + 1);
    std::erase_if(all, [&](const Results::Attacked& a) { return a.surrogate != name; });
    REQUIRE(all.size() == 4);
    return all;
  };
  const auto direct = attacked(""), itself = attacked(softmax), other = attacked(rpc);
  CHECK(apps::read_evaluations<Results>(softmax).back().attacked.size() == 12);
  double white_box = 0, transferred = 0;
  for (size_t i = 0; i < 4; ++i) {
    CAPTURE(direct[i].attack);
    CHECK(itself[i].attack == direct[i].attack);
    CHECK(itself[i].top1 == direct[i].top1);
    CHECK(itself[i].top5 == direct[i].top5);
    CHECK(itself[i].l2 == direct[i].l2);
    CHECK(itself[i].arguments.find("--attacked-by") != std::string::npos);
    CHECK(other[i].surrogate_attention.find("RPC") != std::string::npos);
    white_box += direct[i].top1;
    transferred += other[i].top1;
  }
  CHECK(white_box < transferred);
  const apps::ComparedRun row = compared(RunRecord(softmax));
  CHECK(std::any_of(row.values.begin(), row.values.end(), [](const apps::ComparedRun::Value& v) {
    return v.column.name.starts_with("pgd 16/255 (pixel) by rpc (RPC");
  }));

  // Square with other first squares is another attack, and so is one by another run of that name.
  const auto count = [&] { return apps::read_evaluations<Results>(softmax).back().attacked.size(); };
  o.attacked_by.clear();
  o.attacks = {"square"};
  o.attack_options["square"]["share"] = 0.05;
  REQUIRE(eval(o) == 0);
  CHECK(count() == 13);
  CHECK(apps::read_evaluations<Results>(softmax).back().attacked.back().settings.find("squares of 0.05") !=
        std::string::npos);
  std::filesystem::create_directory(f.file("other"));
  std::filesystem::copy(rpc, f.file("other/rpc"));
  o.attacks = {"fgsm"};
  o.attack_options.clear();
  o.attacked_by = f.file("other/rpc");
  REQUIRE(eval(o) == 0);
  CHECK(count() == 14);

  const auto refused = [&](const std::string& by) {
    o.attacked_by = by;
    return message_of([&] { eval(o); });
  };
  CHECK(refused(trained(f, "larger", "softmax", 48)).find("takes 48 x 48 pixels") != std::string::npos);
  CHECK(refused(f.file("missing")).find("missing") != std::string::npos);
  o.attacks.clear();
  o.budgets.clear();
  CHECK(refused(rpc).find("give --attack too") != std::string::npos);
}

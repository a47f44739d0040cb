#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nn/attacks/attacks.h"
#include "nn/options.h"

// An attack is one type in one file, as an attention kind is:
//
//   struct Fgsm {
//     static constexpr AttackTraits traits = {.name = "fgsm", .norm = Norm::linf};
//     struct Options {};
//     static Tensor run(const Victim& v, const Tensor& x, double eps, const Options&) { ... }
//     static std::string describe(const Options&) { return ""; }
//   };
//   PURSUIT_ATTACK(Fgsm)
//
// Options have a for_each_option as those of attention kinds; on the command line they are --fgsm-NAME. An
// attack without a norm has a budget of its own, which it may tell: static double budget(const Options&). Where the
// description depends on the number of classes it is describe(const Options&, int64_t classes); 0: not known. An option
// may choose the defaults of the others: static void apply_preset(Options&), called before those given
// are read.
namespace pursuit::attacks {

using nn::Option, nn::OptionValue, nn::OptionValues;

struct AttackTraits {
  const char* name;
  std::optional<Norm> norm = {};        // of the balls whose radii are its budgets
  bool labels_of_pixels = false;        // labels may be those of x's pixels: it needs their loss alone
  bool one_at_a_time = false;           // give it one image at a time; between images it can be stopped
  const char* memory_option = nullptr;  // its option that the memory depends on, beside the batch size
};

struct AttackInfo {
  AttackTraits traits;
  std::vector<Option> options;
  // With a radius, for attacks with a norm. Options left out have their defaults.
  std::function<Tensor(const Victim&, const Tensor& x, double radius, const OptionValues&)> run;
  // "20 steps of 0.15 of the budget"; classes: of the logits; 0: not known.
  std::function<std::string(const OptionValues&, int64_t classes)> describe;
  std::function<double(const OptionValues&)> budget;  // of an attack without a norm; 0: no bound
  // All options, with defaults and presets filled in.
  std::function<OptionValues(const OptionValues&)> complete;
  // Shows the model what it sees at once, for shapes only; of attacks with a memory_option. x: [1, C, H, W].
  std::function<void(const Logits&, const Tensor& x, const OptionValues&)> on_shapes;
};

const std::vector<std::string>& names();  // of all attacks, sorted
// Throws Error that lists the names.
const AttackInfo& info_of(const std::string& name);

struct Settings {
  std::string name;
  double budget = 0;  // of attacks with a norm: l_inf in 1/255, l2 in units of the images
  // false, as in the published RPC evaluation: budgets apply to normalised images without clipping, and
  // labels are the model's own predictions on clean images. true: budgets apply to pixels in [0, 1], to which
  // the result is clipped, and labels are the true ones.
  bool pixel = false;
  std::vector<double> mean, std;  // of the normalisation, per channel
  OptionValues options = {};      // of the attack; those left out have their defaults
  uint64_t seed = 0;
  // Above 1, for a model that draws random numbers at every call: its logits, and so their gradients, are
  // means over so many calls (expectation over transformation, Athalye et al. 2018).
  int draws = 1;
  int64_t classes = 0;  // of the logits, for describe(); 0: not known

  double radius() const;         // of the ball, in units of the images
  std::string describe() const;  // the options that matter: "20 steps of 0.15 of the budget"
  // Those that differ from the defaults and presets, as on the command line: "--spsa-steps 10".
  std::string arguments() const;
};

// Takes and returns normalised images; `pictures` are their indices, as in Victim. Throws Error for unknown
// names and values, if a gradient is not finite, and for draws of a model that draws nothing.
Tensor attack(const Logits& logits, const Tensor& images, const Tensor& labels, const Settings& settings,
              const std::vector<int64_t>& pictures = {});

// The norms of an image's change, in the settings' space.
struct Length {
  double linf = 0, l2 = 0;
};
std::vector<Length> lengths(const Tensor& before, const Tensor& after, const Settings& settings);

namespace detail {

void register_attack(AttackInfo info);

template <class Attack> typename Attack::Options options_of(const OptionValues& given) {
  typename Attack::Options options;
  const auto read = [&] {
    if constexpr (requires { Attack::for_each_option(options, [](auto&&...) {}); })
      Attack::for_each_option(options, [&](const char* name, auto& member, const char*, auto...) {
        if (const auto found = given.find(name); found != given.end())
          nn::read_option("attack", name, found->second, member);
      });
  };
  read();
  if constexpr (requires { Attack::apply_preset(options); }) {
    Attack::apply_preset(options);
    read();
  }
  return options;
}

template <class Attack> std::vector<Option> described_options(const typename Attack::Options& options) {
  std::vector<Option> all;
  if constexpr (requires { Attack::for_each_option(options, [](auto&&...) {}); })
    Attack::for_each_option(options,
                            [&](const char* name, const auto& member, const char* help, auto... range) {
                              all.push_back(nn::described(name, member, help, range...));
                            });
  return all;
}

template <class Attack> AttackInfo attack_info() {
  using Options = typename Attack::Options;
  AttackInfo info;
  info.traits = Attack::traits;
  info.options = described_options<Attack>(Options());
  info.complete = [](const OptionValues& given) {
    OptionValues all;
    for (const Option& option : described_options<Attack>(options_of<Attack>(given)))
      all[option.name] = option.value;
    return all;
  };
  info.run = [](const Victim& v, const Tensor& x, double radius, const OptionValues& given) {
    return Attack::run(v, x, radius, options_of<Attack>(given));
  };
  info.describe = [](const OptionValues& given, [[maybe_unused]] int64_t classes) {
    if constexpr (requires(const Options& o) { Attack::describe(o, int64_t()); })
      return Attack::describe(options_of<Attack>(given), classes);
    else
      return Attack::describe(options_of<Attack>(given));
  };
  info.budget = [](const OptionValues& given) {
    if constexpr (requires(const Options& o) { Attack::budget(o); })
      return Attack::budget(options_of<Attack>(given));
    else
      return 0.0;
  };
  if constexpr (requires(const Logits& l, const Tensor& x, const Options& o) { Attack::on_shapes(l, x, o); })
    info.on_shapes = [](const Logits& logits, const Tensor& x, const OptionValues& given) {
      Attack::on_shapes(logits, x, options_of<Attack>(given));
    };
  return info;
}

template <class Attack> struct RegisterAttack {
  RegisterAttack() { register_attack(attack_info<Attack>()); }
};

}  // namespace detail

#define PURSUIT_ATTACK(Attack) \
  static const ::pursuit::attacks::detail::RegisterAttack<Attack> registered_##Attack;

}  // namespace pursuit::attacks

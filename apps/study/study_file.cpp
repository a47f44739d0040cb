#include "apps/study/study_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>

#include "engine/base/error.h"

namespace pursuit::apps {

namespace {

using Words = std::vector<std::string>;

// The part of the file in this section, added if it is new.
template <class Part, class Own>
Part& part_of(std::vector<Part>& parts, const Study& study, const Words& section, const Own& recipe_of) {
  const std::string& name = section[1];
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '+';
  };
  if (name.empty() || name.size() > 60 || !std::all_of(name.begin(), name.end(), fits))
    fail("study", fmt::format("{}: [{}]: '{}' names folders, need up to 60 letters, digits, '-', '_' and '+'",
                              study.file, fmt::join(section, "."), name));
  for (Part& part : parts)
    if (recipe_of(part).name == name) return part;
  Part part;
  recipe_of(part) = {name, fmt::format("{} [{}.{}]", study.file, section[0], name), {}, {}};
  parts.push_back(std::move(part));
  return parts.back();
}

uint64_t seed_of(const Study& study, const std::string& text) {
  int64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size() || seed < 0)
    fail("study", fmt::format("{}: 'seeds' has '{}', need whole numbers from 0 on", study.file, text));
  if (std::count(study.seeds.begin(), study.seeds.end(), uint64_t(seed)))
    fail("study", fmt::format("{}: 'seeds' has {} twice", study.file, seed));
  return uint64_t(seed);
}

void read_top(Study& study, const CLI::ConfigItem& item) {
  if (item.name == "recipe")
    study.recipe = joined(item);
  else if (item.name == "requires-data")
    study.options.requires_data = joined(item);
  else if (item.name == "seeds")
    for (const std::string& text : item.inputs) study.seeds.push_back(seed_of(study, text));
  else
    fail("study", fmt::format("{}: there is no key '{}' above the sections; known are recipe, requires-data, "
                              "seeds",
                              study.file, item.name));
}

void read_item(Study& study, const CLI::ConfigItem& item) {
  const Words& section = item.parents;
  const bool is_setting = item.name != "++" && item.name != "--";  // those begin and end a section
  const auto add_to = [&](Recipe& part) {
    if (is_setting) part.settings.emplace_back(item.name, joined(item));
  };
  if (section.empty()) return read_top(study, item);
  if (section == Words{"options"}) return add_to(study.options);
  if (section == Words{"variants"} || section == Words{"evaluations"} || section == Words{"quantizations"}) {
    if (is_setting)
      fail("study", fmt::format("{}: '{}' is in no part of [{}]; need a section [{}.NAME]", study.file,
                                item.name, section[0], section[0]));
    return;
  }
  const auto itself = [](Recipe& r) -> Recipe& { return r; };
  if (section[0] == "evaluations" && section.size() == 2)
    return add_to(part_of(study.evaluations, study, section, itself));
  if (section[0] == "quantizations" && section.size() == 2)
    return add_to(part_of(study.quantizations, study, section, itself));
  if (section[0] == "variants" && (section.size() == 2 || (section.size() == 3 && section[2] == "choose"))) {
    Study::Variant& variant =
        part_of(study.variants, study, section, [](Study::Variant& v) -> Recipe& { return v.options; });
    if (section.size() == 2 && item.name == "recipe") {
      variant.recipe = joined(item);
      return;
    }
    if (section.size() == 2) return add_to(variant.options);
    if (is_setting) variant.choose.emplace_back(item.name, item.inputs);
    return;
  }
  fail("study", fmt::format("{}: there is no section [{}]; known are options, variants.NAME, "
                            "variants.NAME.choose, evaluations.NAME, quantizations.NAME",
                            study.file, fmt::join(section, ".")));
}

}  // namespace

Study read_study(const std::string& file) {
  Study study;
  study.file = file;
  study.name = std::filesystem::path(file).stem().string();
  study.options = {"options", file + " [options]", {}, {}};
  for (const CLI::ConfigItem& item : read_toml("study", file)) read_item(study, item);
  if (study.variants.empty())
    fail("study",
         file + ": there is nothing to train; need a section [variants.NAME] with options of `train`");
  if (study.seeds.empty()) study.seeds = {0};
  for (const Study::Variant& variant : study.variants) {
    for (const auto& [option, value] : variant.options.settings)
      for (const auto& [chosen, values] : variant.choose)
        if (option == chosen)
          fail("study", fmt::format("{}: [variants.{}] sets '{}', which its section choose lists; remove one",
                                    file, variant.options.name, option));
    constexpr size_t most = 100;
    size_t count = 1;
    for (const auto& [option, values] : variant.choose) {
      if (values.empty())
        fail("study", fmt::format("{}: [variants.{}.choose] has no values for '{}'; list at least one", file,
                                  variant.options.name, option));
      count = std::min(count * values.size(), most + 1);
    }
    if (count > most)
      fail("study", fmt::format("{}: [variants.{}.choose] has more than {} combinations; list fewer values",
                                file, variant.options.name, most));
  }
  return study;
}

std::vector<Recipe> candidates(const Study::Variant& variant) {
  std::vector<Recipe> all = {variant.options};
  for (const auto& [option, values] : variant.choose) {
    std::vector<Recipe> more;
    for (const Recipe& one : all)
      for (const std::string& value : values) {
        more.push_back(one);
        more.back().name += fmt::format("-{}={}", option, value);
        more.back().settings.emplace_back(option, value);
      }
    all = std::move(more);
  }
  return all;
}

}  // namespace pursuit::apps

#include "apps/run/evaluations.h"

#include <fmt/format.h>

#include <tuple>

namespace pursuit::apps {

bool alike(const Conditions& a, const Conditions& b) {
  const auto key = [](const Conditions& c) {
    return std::tuple(c.data, c.fingerprint, c.count, c.weights, c.step, c.dtype, program(c), c.run);
  };
  return key(a) == key(b);
}

nlohmann::ordered_json to_json(const Conditions& c, const char* count) {
  return {{"data", c.data},       {"fingerprint", c.fingerprint},
          {count, c.count},       {"weights", c.weights},
          {"step", c.step},       {"dtype", c.dtype},
          {"options", c.options}, {"made_by", c.made_by},
          {"run", c.run}};
}

Conditions conditions_from_json(const nlohmann::ordered_json& json, const char* count) {
  Conditions c;
  json.at("data").get_to(c.data);
  c.count = member_of<int64_t>(json, count);
  c.step = member_of<int64_t>(json, "step");
  c.fingerprint = json.value("fingerprint", "");
  c.dtype = json.value("dtype", "");
  c.options = json.value("options", "");
  c.run = json.value("run", "");
  if (json.contains("made_by") && !json.at("made_by").is_null()) {
    c.made_by = json.at("made_by");
    for (const char* key : {"version", "commit"})
      if (!c.made_by.at(key).is_string()) fail("eval.json", std::string("made_by has no ") + key);
  }
  if (json.contains("weights"))
    json.at("weights").get_to(c.weights);
  else
    c.weights = json.at("ema").get<bool>() ? "ema" : "raw";
  return c;
}

std::string program(const Conditions& c) {
  if (c.made_by.is_null()) return "not recorded";
  return c.made_by.at("version").get<std::string>() + " " + c.made_by.at("commit").get<std::string>();
}

std::string describe(const Conditions& c, const std::string& unit) {
  return fmt::format("{}, {} {}, {} weights, step {}{}", c.data, c.count, unit,
                     c.weights == "ema" ? "averaged" : "raw", c.step, c.dtype.empty() ? "" : ", " + c.dtype);
}

std::string evaluations_path(const std::string& folder) {
  return (std::filesystem::path(folder) / "eval.json").string();
}

}  // namespace pursuit::apps

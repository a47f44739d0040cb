#include "apps/segment/interactive/page/mask_request.h"

#include <fmt/format.h>

#include <climits>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"

namespace pursuit::segment::interactive {
namespace {

constexpr const char* where = "mask request";

const nlohmann::json& member(const nlohmann::json& of, const char* name, const std::string& context) {
  const auto found = of.is_object() ? of.find(name) : of.end();
  if (!of.is_object() || found == of.end())
    fail(where, fmt::format("{} has no '{}'; need {{\"picture\": \"...\", \"clicks\": [{{\"x\": 1, \"y\": 2, "
                            "\"positive\": true}}, ...]}}",
                            context, name));
  return *found;
}

int coordinate(const nlohmann::json& click, const char* name, const std::string& context) {
  const auto& value = member(click, name, context);
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT_MAX)
    fail(where, fmt::format("'{}' of {} is no pixel; need a whole number of at least 0", name, context));
  return value.get<int>();
}

}  // namespace

MaskRequest read_mask_request(std::string_view json, int most_clicks) {
  const auto parsed = nlohmann::json::parse(json, nullptr, /*exceptions*/ false);
  if (parsed.is_discarded()) fail(where, "this is not JSON");
  const auto &picture = member(parsed, "picture", "the request"),
             &clicks = member(parsed, "clicks", "the request");
  if (!picture.is_string()) fail(where, "'picture' is no text; need the name that POST /pictures gave");
  if (!clicks.is_array() || clicks.empty() || clicks.size() > size_t(most_clicks))
    fail(where, fmt::format("got {} clicks, need a list of 1 to {}", clicks.is_array() ? clicks.size() : 0,
                            most_clicks));
  MaskRequest request{picture.get<std::string>(), {}};
  for (const auto& click : clicks) {
    const std::string context = fmt::format("click {}", request.clicks.size() + 1);
    const auto& positive = member(click, "positive", context);
    if (!positive.is_boolean())
      fail(where, fmt::format("'positive' of {} is neither true nor false", context));
    request.clicks.push_back(
        {coordinate(click, "x", context), coordinate(click, "y", context), positive.get<bool>()});
  }
  return request;
}

}  // namespace pursuit::segment::interactive

#include "apps/segment/interactive/page/gate.h"

#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>

#include "engine/distributed/secret.h"

namespace pursuit::segment::interactive {
namespace {

bool contains(const std::vector<std::string>& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

// The page's script sends the token as a header; the page's address and those of its parts contain it.
std::string token_of(const httplib::Request& request) {
  if (!request.has_header("Authorization")) return request.get_param_value("token");
  const std::string value = request.get_header_value("Authorization"), scheme = "Bearer ";
  return value.starts_with(scheme) ? value.substr(scheme.size()) : "";
}

std::optional<Refused> body_refusal(const httplib::Request& request, const Route& route) {
  const std::string length = request.get_header_value("Content-Length");
  const bool is_number = !length.empty() && length.find_first_not_of("0123456789") == std::string::npos;
  if (request.has_header("Transfer-Encoding") || request.get_header_value_count("Content-Length") != 1 ||
      !is_number)
    return Refused(411, "need one Content-Length, and no Transfer-Encoding");
  if (length.size() > 18 || std::stoull(length) > route.most_bytes)
    return Refused(413, fmt::format("got {} bytes, at most {} are read", length, route.most_bytes));
  if (request.has_header("Content-Encoding") ||
      !request.get_header_value("Content-Type").starts_with(route.content))
    return Refused(415, fmt::format("need a Content-Type of {}, and no Content-Encoding", route.content));
  return {};
}

}  // namespace

Gate::Gate(int port, std::string token, std::vector<Route> routes)
    : hosts_{fmt::format("127.0.0.1:{}", port), fmt::format("localhost:{}", port)},
      origins_{"http://" + hosts_[0], "http://" + hosts_[1]},
      token_(std::move(token)),
      routes_(std::move(routes)) {}

std::optional<Refused> Gate::refusal(const httplib::Request& request) const {
  if (request.get_header_value_count("Host") != 1 || !contains(hosts_, request.get_header_value("Host")))
    return Refused(403, fmt::format("this is served as http://{} only", hosts_[0]));
  if (request.has_header("Origin") && !contains(origins_, request.get_header_value("Origin")))
    return Refused(403, "requests of other web pages are not served");
  if (!distributed::equal(token_of(request), token_))
    return Refused(403,
                   "the token is missing or wrong; open the address that the server printed when it started");
  const auto route =
      std::find_if(routes_.begin(), routes_.end(), [&](const Route& r) { return r.path == request.path; });
  if (route == routes_.end()) return Refused(404, "there is nothing at this path");
  if (route->method != request.method) return Refused(405, fmt::format("need {} here", route->method));
  return route->content.empty() ? std::nullopt : body_refusal(request, *route);
}

}  // namespace pursuit::segment::interactive

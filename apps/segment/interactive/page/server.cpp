#include "apps/segment/interactive/page/server.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "apps/page/html.h"
#include "apps/segment/interactive/page/gate.h"
#include "apps/segment/interactive/page/loopback_server.h"
#include "apps/segment/interactive/page/mask_png.h"
#include "apps/segment/interactive/page/mask_request.h"
#include "apps/segment/interactive/page/page.h"
#include "apps/segment/interactive/page/random_name.h"
#include "apps/segment/interactive/page/turns.h"
#include "apps/terminal/print.h"
#include "apps/terminal/signals.h"

namespace pursuit::segment::interactive {
namespace {

constexpr size_t kMostPictureBytes = size_t(32) << 20, kMostRequestBytes = size_t(64) << 10;

// An Error's text without the "[where] " in front.
std::string reason_of(const std::exception& error) {
  const std::string text = printable(error.what());
  const size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

void refuse(httplib::Response& response, int status, const std::string& why) {
  response.status = status;
  response.set_content(why + "\n", "text/plain; charset=utf-8");
}

void refuse(httplib::Response& response, const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Refused& e) {
    refuse(response, e.status, reason_of(e));
  } catch (const std::future_error&) {
    refuse(response, 503, "the server is ending");
  } catch (const std::exception& e) {
    refuse(response, 500, "the model failed: " + reason_of(e));
  }
}

// What httplib refuses by itself: requests that are no HTTP, or that end too early.
void say_why(const httplib::Request&, httplib::Response& response) {
  if (response.body.empty())
    refuse(response, response.status, "this is no HTTP request, or not all of it arrived in time");
}

httplib::Headers security_headers() {
  return {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src blob: data:; connect-src 'self'; "
       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cache-Control", "no-store"}};
}

std::string replaced(std::string_view text, std::string_view name, std::string_view value) {
  std::string result;
  for (size_t at = 0;;) {
    const size_t found = text.find(name, at);
    result += text.substr(at, found - at);
    if (found == std::string_view::npos) return result;
    result += value;
    at = found + name.size();
  }
}

void add_page(httplib::Server& server, const std::string& page) {
  const auto add = [&](const char* path, std::string_view text, const char* type) {
    server.Get(path, [text = std::string(text), type](const httplib::Request&, httplib::Response& response) {
      response.set_content(text, type);
    });
  };
  add("/", page, "text/html; charset=utf-8");
  add("/page.css", page_css, "text/css; charset=utf-8");
  add("/page.js", page_js, "text/javascript; charset=utf-8");
}

MaskRequest read_request(const std::string& body, int most_clicks) {
  try {
    return read_mask_request(body, most_clicks);
  } catch (const Error& e) {
    throw Refused(400, e.what());
  }
}

}  // namespace

int serve(const ServeOptions& options, const std::string& about, const Look& look) {
  if (options.port != 0 && (options.port < 1024 || options.port > 65535))
    fail("serve", fmt::format("got port {}, need 1024 to 65535, or 0 for a free one", options.port));
  const std::string token = random_name();
  LookedPictures pictures(look);
  Turns turns;
  std::optional<Gate> gate;
  LoopbackServer server(kMostPictureBytes, [&](const httplib::Request& r) { return !gate->refusal(r); });
  const int port = server.bind(options.port);
  gate.emplace(port, token,
               std::vector<Route>{{"/", "GET"},
                                  {"/page.css", "GET"},
                                  {"/page.js", "GET"},
                                  {"/pictures", "POST", "image/", kMostPictureBytes},
                                  {"/masks", "POST", "application/json", kMostRequestBytes}});
  server.set_default_headers(security_headers());
  server.set_error_handler(httplib::Server::Handler(say_why));
  server.set_exception_handler([](const httplib::Request&, httplib::Response& response,
                                  std::exception_ptr thrown) { refuse(response, thrown); });
  server.set_pre_routing_handler([&](const httplib::Request& request, httplib::Response& response) {
    const auto refused = gate->refusal(request);
    if (!refused) return httplib::Server::HandlerResponse::Unhandled;
    refuse(response, refused->status, reason_of(*refused));
    return httplib::Server::HandlerResponse::Handled;
  });

  add_page(server, replaced(replaced(page_html, "{{token}}", token), "{{about}}", apps::escape_html(about)));
  server.Post("/pictures", [&](const httplib::Request& request, httplib::Response& response) {
    const nlohmann::json answer = turns.ask([&] {
      const LookedPictures::Picture& picture = pictures.add(request.body);
      return nlohmann::json{{"id", picture.name}, {"width", picture.width}, {"height", picture.height}};
    });
    response.set_content(answer.dump(), "application/json");
  });
  server.Post("/masks", [&](const httplib::Request& request, httplib::Response& response) {
    const MaskRequest wanted = read_request(request.body, options.most_clicks);
    std::chrono::duration<double, std::milli> took{};
    const data::Image mask = turns.ask([&] {
      const auto begin = std::chrono::steady_clock::now();
      data::Image made = pictures.mask(wanted);
      took = std::chrono::steady_clock::now() - begin;
      return made;
    });
    response.set_header("Server-Timing", fmt::format("masks;dur={:.1f}", took.count()));
    response.set_content(mask_png(mask), "image/png");
  });

  apps::catch_stop_signals("answer");
  apps::print("http://127.0.0.1:{}/?token={}\n", port, token);
  std::fflush(stdout);
  apps::note("open this address in a browser on this machine; ctrl-C ends the server\n");
  server.start();
  turns.work_until([&] { return apps::stop_requested() || !server.is_running(); });
  const bool failed = !apps::stop_requested();
  server.end();
  if (failed) fail("serve", "the system accepts no more connections; start the server again");
  return 0;
}

}  // namespace pursuit::segment::interactive

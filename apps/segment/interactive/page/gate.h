#pragma once
#include <optional>
#include <string>
#include <vector>

#include "apps/segment/interactive/page/looked_pictures.h"

namespace httplib {
struct Request;
}

namespace pursuit::segment::interactive {

// What can be asked for.
struct Route {
  std::string path, method;
  std::string content = "";  // what the type of a POST's body begins with
  size_t most_bytes = 0;     // of it
};

// Decides by the headers whether a request is served.
class Gate {
 public:
  Gate(int port, std::string token, std::vector<Route> routes);

  // Why a request is refused: it comes from another web page, uses another name of this machine (DNS
  // rebinding), has no token, asks for what is not served, or has a body that is too long or of another type.
  std::optional<Refused> refusal(const httplib::Request& request) const;

 private:
  std::vector<std::string> hosts_, origins_;
  std::string token_;
  std::vector<Route> routes_;
};

}  // namespace pursuit::segment::interactive

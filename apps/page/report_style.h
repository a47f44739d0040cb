#pragma once
#include <string_view>

namespace pursuit::apps {

// The style sheet of report.html, light and dark. Series colours s0 to s7 follow Okabe and Ito, "Color
// Universal Design" (2008), lightened for dark windows.
extern const std::string_view report_css;

// Shows the values under the pointer in line charts. Free of '<' and '&', so that the page is also
// well-formed XML.
extern const std::string_view report_script;

}  // namespace pursuit::apps

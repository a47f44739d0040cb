#pragma once
#include <string_view>

namespace pursuit::apps {

// The style sheet of report.html, light and dark. Series colours s0 to s7 follow Okabe and Ito, "Color
// Universal Design" (2008), lightened for dark windows.
extern const std::string_view report_css;

// The script that shows the values under the pointer in line charts. It must not contain '<' or '&', so that
// the page is well-formed XML too.
extern const std::string_view report_script;

}  // namespace pursuit::apps

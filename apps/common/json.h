#pragma once
#include <nlohmann/json.hpp>

// Its code is compiled once, in json.cpp, and not in every file that uses it: that takes a third off the
// compiling of such a file under sanitizers.
extern template class nlohmann::basic_json<nlohmann::ordered_map>;

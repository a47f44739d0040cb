#pragma once
#include <functional>
#include <string>
#include <vector>

namespace pursuit {

// Stands before a program's lines on stderr: "[rank 3] " where several processes share it.
inline std::string line_prefix;

// Runs a program: `body` with its arguments, which returns the exit code (0 done, 1 failed, 2 wrong usage).
// An exception becomes one line on stderr, "error: ...", and exit code 1, and
// torchrun is told (distributed::record_failure); so does output that could not be
// written, and a limit of the address space under which the libraries would hang. Streams 0 to 2 that are
// closed are taken first, so that no file of the program gets their numbers. A reader of the output that goes
// away, and a file that reaches its size limit, are errors of the write, not signals.
int run_main(int argc, char** argv, const std::function<int(std::vector<std::string>)>& body);

}  // namespace pursuit

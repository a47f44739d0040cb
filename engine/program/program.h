#pragma once
#include <functional>
#include <string>
#include <vector>

namespace pursuit {

// Runs `body`, which returns the exit code (0 success, 1 failure, 2 wrong usage), with the program's
// arguments. An exception prints one line "error: ..." on stderr, exits with 1 and is reported to torchrun
// (distributed::record_failure). The same happens when output cannot be written, and when the address space
// limit is too small for the libraries. Closed streams 0 to 2 are reopened first, so that no file gets their
// descriptors. SIGPIPE and SIGXFSZ are ignored: a reader that goes away or a file at its size limit is a
// write error.
int run_main(int argc, char** argv, const std::function<int(std::vector<std::string>)>& body);

}  // namespace pursuit

#pragma once
#include <functional>

// The simulated GPU's streams. What goes to the one for work is done at once, or recorded while a graph is
// captured. Copies on the other lie in wait until somebody waits for them: as late as the hardware may do
// them.
namespace simt {

void submit(std::function<void()> work);

}  // namespace simt

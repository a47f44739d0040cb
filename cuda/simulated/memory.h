#pragma once
#include <cstddef>
#include <vector>

// The simulated GPU's memory: separate host allocations, so that AddressSanitizer detects writes beyond one,
// filled with NaN bits, so that reads of uninitialised memory show.
namespace simt {

void* take_memory(size_t bytes);
void give_memory(void* p);
size_t memory_used();

using Snapshot = std::vector<std::vector<unsigned char>>;  // the bytes of all blocks
Snapshot save_memory();
void restore_memory(const Snapshot& s);
bool memory_equals(const Snapshot& s);

}  // namespace simt

#pragma once
#include <cstddef>
#include <vector>

// The simulated GPU's memory: blocks of the host's, each its own, so that AddressSanitizer sees a write
// beside one, filled with NaN bits, so that a read of what nobody wrote shows.
namespace simt {

void* take_memory(size_t bytes);
void give_memory(void* p);
size_t memory_used();

using Snapshot = std::vector<std::vector<unsigned char>>;  // all blocks' bytes
Snapshot save_memory();
void restore_memory(const Snapshot& s);
bool memory_equals(const Snapshot& s);

}  // namespace simt

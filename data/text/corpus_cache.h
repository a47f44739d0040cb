#pragma once
#include "data/text/corpus.h"

namespace pursuit::data {

// Of what follows the first 16 bytes of a cache, which hold its magic number and this. It tells contents
// apart that differ by accident: no protection against contents made to collide.
uint64_t cache_checksum(std::string_view bytes);

// Fills in vocabulary and tokens of a corpus whose source is open from the cache folder; false if it holds
// nothing that fits and is whole, or cannot be looked at.
bool read_cache(Corpus& corpus, const CorpusOptions& options);
// Writes atomically; creates the folder. Throws Error that names the file.
void write_cache(const Corpus& corpus, const CorpusOptions& options);

}  // namespace pursuit::data

#pragma once
#include "data/text/corpus.h"

namespace pursuit::data {

// Checksum of a cache file's bytes after the first 16, which hold its magic number and this checksum. It
// detects accidental differences, not deliberate collisions.
uint64_t cache_checksum(std::string_view bytes);

// Creates the cache folder. Throws Error unless files can be written there.
void open_cache_folder(const std::string& folder);

// Fills vocabulary and tokens of a corpus whose source is open from the cache folder; false if there is no
// intact matching cache, or it is not accessible.
bool read_cache(Corpus& corpus, const CorpusOptions& options);
// Writes atomically. Throws Error that names the file.
void write_cache(const Corpus& corpus, const CorpusOptions& options);

}  // namespace pursuit::data

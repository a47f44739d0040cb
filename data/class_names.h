#pragma once
#include <string>
#include <vector>

namespace pursuit::data {

// Words for classes named by WordNet ids ("n01440764"), from a list in the data's folder:
// LOC_synset_mapping.txt, synset_words.txt or words.txt, with lines "n01440764 tench, Tinca tinca". Takes the
// first of several words; a class that is not listed keeps its name. Empty if there is no list. Throws Error
// if the list cannot be read.
std::vector<std::string> class_names(const std::string& folder, const std::vector<std::string>& classes);

}  // namespace pursuit::data

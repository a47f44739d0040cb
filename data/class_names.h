#pragma once
#include <string>
#include <vector>

namespace pursuit::data {

// The list of words for classes in a data set's folder, LOC_synset_mapping.txt, synset_words.txt or words.txt;
// empty if there is none.
std::string class_name_list(const std::string& folder);

// Words for classes named by WordNet ids ("n01440764"), from that list, with lines "n01440764 tench, Tinca
// tinca". Takes the first of several words; a class that is not listed keeps its name. Empty if there is no
// list. Throws Error if the list cannot be read.
std::vector<std::string> class_names(const std::string& folder, const std::vector<std::string>& classes);

// Whether a class is named by a WordNet id.
bool is_wordnet_id(const std::string& name);

// Class names in the order of the labels, from a file with a class a line (of "n01440764 tench" only the id
// is taken), or from a training set's class folders: those in `path`/train or else in `path`, sorted. Throws
// Error if there are none, or if a name occurs twice.
std::vector<std::string> read_classes(const std::string& path);

}  // namespace pursuit::data

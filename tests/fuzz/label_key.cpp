#include "data/label_key.h"

#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

namespace {

void read(std::string_view input) { data::read_class_file(write("classes.txt", input)); }

}  // namespace

const Target target{.read = read};

}  // namespace pursuit::fuzz

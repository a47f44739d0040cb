#include "data/label_key.h"
#include "data/png.h"
#include "engine/base/error.h"
#include "tests/fuzz/png.h"

namespace pursuit::fuzz {

namespace {

void read(std::string_view input) {
  static const data::LabelKey numbers({{"ignore", {}}, {"road", {}}, {"sky", {}}}, "numbers"),
      colours({{"road", data::Rgb{0, 0, 0}}, {"sky", data::Rgb{255, 255, 255}}}, "colours");
  const std::string path = write("labels.png", input);
  for (const data::LabelKey* key : {&numbers, &colours}) try {
      key->read(path);
    } catch (const Error&) {
    }
}

}  // namespace

const Target target{.read = read, .split = split_png, .join = join_png};

}  // namespace pursuit::fuzz

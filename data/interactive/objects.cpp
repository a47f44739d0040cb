#include "data/interactive/objects.h"

#include "engine/base/error.h"

namespace pursuit::data {

std::unique_ptr<SegmentationDataset> open_objects(const std::string& path, Split split,
                                                  const ObjectOptions& options) {
  const ObjectFormats::Found found = ObjectFormats::find("objects", path, options.format);
  for (const auto& [name, value] :
       {std::pair{"least_area", options.least_area}, {"most_a_picture", options.most_a_picture}})
    if (value < 1) fail("objects", std::string(name) + ": got " + std::to_string(value) + ", need 1 or more");
  if (options.noise != 0 && found.format.find)
    fail("objects", "noise is of drawn scenes alone, but the data is to be that of " + path +
                        ": leave out one of the two");
  return found.format.open(found.folder, split, options);
}

}  // namespace pursuit::data

#include "data/files.h"
#include "data/paired_files.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

// The picture that a line names; its label map may follow after a blank. Names may hold blanks.
std::string picture_of(const std::string& line) {
  for (size_t end = line.find_first_of(" \t"); end != line.npos; end = line.find_first_of(" \t", end + 1))
    if (is_image_file(line.substr(0, end))) return line.substr(0, end);
  return is_image_file(line) ? line : line.substr(0, line.find_first_of(" \t"));
}

SegmentationFiles camvid(const fs::path& root, Split split, bool skip_bad) {
  const LabelKey key({{"sky", Rgb{128, 128, 128}},
                      {"building", Rgb{128, 0, 0}},
                      {"pole", Rgb{192, 192, 128}},
                      {"road", Rgb{128, 64, 128}},
                      {"pavement", Rgb{60, 40, 222}},
                      {"tree", Rgb{128, 128, 0}},
                      {"sign symbol", Rgb{192, 128, 128}},
                      {"fence", Rgb{64, 64, 128}},
                      {"car", Rgb{64, 0, 128}},
                      {"pedestrian", Rgb{64, 64, 0}},
                      {"bicyclist", Rgb{0, 128, 192}},
                      {"ignore", Rgb{0, 0, 0}}},
                     "camvid");
  SegmentationFiles files{key, existing_split({root}, split)};
  const std::string folder = choice_name(files.split);
  const Pairing pairing(root / folder, root / (folder + "annot"), skip_bad);
  const fs::path list = root / (folder + ".txt");
  if (!has_file(list.string())) {
    pairing.add_all(files);
    return files;
  }
  for (const std::string& line : read_lines(list.string()))
    pairing.add(fs::path(picture_of(line)).stem().string(), files, list.string());
  return files;
}

const SegmentationFormats::Entry registered{
    {.name = "camvid",
     .files = "train with trainannot",
     .find = [](const std::string& path) { return has_split_folder(path, "annot") ? path : ""; },
     .open = open_paired<camvid>}};

}  // namespace
}  // namespace pursuit::data

#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/corrupted_set.h"
#include "data/files.h"
#include "data/split.h"
#include "engine/base/error.h"

// The formats of data sets. A format registers itself in its own file, so that adding one changes no other:
//   const DatasetFormats::Entry registered{{.name = "idx", .files = "...", .find = find_idx, .open = open}};
namespace pursuit::data {

// Set is the type of the data sets, Options what they are opened with; its `format` is a name or "auto".
template <class Set, class Options> struct Format {
  const char* name;
  // The files by which a user recognises the format: "data_batch_*.bin and test_batch*.bin".
  const char* files = "";
  // The folder with the data if `path` has this format: path, or the folder inside it to which a published
  // archive unpacks. Empty if it has another format. Null for the one that is drawn and takes no path.
  std::string (*find)(const std::string& path) = nullptr;
  std::unique_ptr<Set> (*open)(const std::string& folder, Split split, const Options& options);
  // The parts of a set that is published corrupted; null for the others.
  std::vector<CorruptedPart> (*parts)(const std::string& folder) = nullptr;
};

template <class Set, class Options> class Formats {
 public:
  using Format = data::Format<Set, Options>;

  struct Entry {
    Entry(const Format& format) {
      if (!all().emplace(format.name, format).second)
        fail("formats", std::string("there are two formats of the name ") + format.name);
    }
  };

  struct Found {
    const Format& format;
    std::string folder;
  };

  // "auto" and the formats' names, sorted.
  static std::vector<std::string> names() {
    std::vector<std::string> names{"auto"};
    for (const auto& [name, format] : all()) names.push_back(name);
    return names;
  }

  // For the option `format`: evaluation takes all formats, training not those that are published corrupted,
  // packing neither these nor the one that is drawn.
  enum class Use { evaluation, training, packing };
  static std::string help(Use use = Use::evaluation) {
    std::vector<std::string> taken{"auto"};
    for (const auto& [name, format] : all())
      if (use == Use::evaluation || (!format.parts && (use == Use::training || format.find)))
        taken.push_back(name);
    return "Format of the data: " + listed(taken, " or ");
  }

  // The parts of a set that is published corrupted, empty for others; see find.
  static std::vector<CorruptedPart> parts(const char* where, const std::string& path,
                                          const std::string& name) {
    const Found found = find(where, path, name);
    return found.format.parts ? found.format.parts(found.folder) : std::vector<CorruptedPart>{};
  }

  // The format that is named, or with "auto" the only one that fits the folder. Throws Error, which starts with
  // `where`, if there is none or several, or if a path is missing or is given for the set that is drawn.
  static Found find(const char* where, const std::string& path, const std::string& name) {
    if (name == "auto") return path.empty() ? Found{drawn(), ""} : detect(where, path);
    const auto found = all().find(name);
    if (found == all().end())
      fail(where, "unknown format: got " + name + ", need " + listed(names(), " or "));
    if (found->second.find) {
      if (path.empty()) fail(where, "format " + name + " needs a path: got none");
      require_folder(where, path);
    } else if (!path.empty()) {
      fail(where, "format " + name + " is drawn, but the data is to be that of " + path +
                      ": leave out one of the two");
    }
    const std::string inside = found->second.find ? found->second.find(path) : "";
    return {found->second, inside.empty() ? path : inside};
  }

 private:
  // A map, so that lists are sorted by name: the order of registrations is not defined.
  static std::map<std::string, Format>& all() {
    static std::map<std::string, Format> formats;
    return formats;
  }

  static const Format& drawn() {
    for (const auto& [name, format] : all())
      if (!format.find) return format;
    fail("formats", "no format is drawn: give a path");
  }

  static Found detect(const char* where, const std::string& path) {
    require_folder(where, path);
    std::vector<Found> fitting;
    std::vector<std::string> names, known;
    for (const auto& [name, format] : all()) {
      if (!format.find) continue;
      known.push_back(std::string(format.files) + " (" + name + ")");
      const std::string folder = format.find(path);
      if (folder.empty()) continue;
      fitting.push_back({format, folder});
      names.push_back(name);
    }
    if (fitting.size() == 1) return fitting[0];
    if (!fitting.empty())
      fail(where, path + " has the files of several formats: name the one to read, " + listed(names, " or "));
    fail(where, path + " has no known layout: found " + contents_of(path) + ". Understood are " +
                    listed(known, " and ") +
                    ". Point at the folder that holds these, or give no path for the built-in set " +
                    drawn().name);
  }
};

}  // namespace pursuit::data

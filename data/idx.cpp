#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "data/big_endian.h"
#include "data/dataset.h"
#include "engine/base/error.h"
#include "engine/files/atomic_file.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxBytes = int64_t(8) << 30;

// Reads a file sequentially, decompressing it if it is gzipped.
class GzFile {
 public:
  explicit GzFile(const std::string& path) : path_(path), file_(nullptr, gzclose) {
    const InputFile file(path);
    file_.reset(gzdopen(dup(file.descriptor()), "rb"));
    if (!file_) file.reject(std::string("cannot be opened: ") + std::strerror(errno));
    gzbuffer(file_.get(), 1 << 17);
  }

  // Reads up to `size` bytes; fewer only at the end of the file.
  size_t read(uint8_t* bytes, size_t size) {
    size_t done = 0;
    while (done < size) {
      const int got = gzread(file_.get(), bytes + done, unsigned(std::min<size_t>(size - done, 1 << 30)));
      int status = Z_OK;
      const char* message = gzerror(file_.get(), &status);
      if (got < 0 || status == Z_BUF_ERROR) {
        fail("idx", path_ + " is damaged or truncated: " + (message && *message ? message : "read error") +
                        "; fetch the file again");
      }
      if (got == 0) break;
      done += size_t(got);
    }
    return done;
  }

 private:
  std::string path_;
  std::unique_ptr<gzFile_s, decltype(&gzclose)> file_;
};

template <size_t N> struct Idx {
  std::array<int64_t, N> dims{};
  std::vector<uint8_t> bytes;
};

// Reads an IDX file of unsigned bytes with N dimensions.
template <size_t N> Idx<N> read_idx(const std::string& path) {
  GzFile file(path);
  std::array<uint8_t, 4 + 4 * N> header{};
  if (file.read(header.data(), header.size()) < header.size()) {
    fail("idx", path + " ends inside its header: need at least " + std::to_string(header.size()) + " bytes");
  }
  const uint32_t magic = big_endian32(header.data());
  if (magic != 0x800 + N) {
    fail("idx", path + " has the wrong magic number: got " + std::to_string(magic) + ", need " +
                    std::to_string(0x800 + N) + " (unsigned bytes, " + std::to_string(N) + " dimensions)");
  }
  Idx<N> idx;
  int64_t expected = 1;
  for (size_t d = 0; d < N; ++d) {
    idx.dims[d] = big_endian32(&header[4 + 4 * d]);
    if (idx.dims[d] == 0)
      fail("idx", path + " is empty: dimension " + std::to_string(d) + " is 0 in its header");
    if (idx.dims[d] > kMaxBytes / expected) {
      fail("idx",
           path + " claims more than 8 GiB of data in its header: it is damaged, or needs an image folder");
    }
    expected *= idx.dims[d];
  }
  // The buffer grows with the data read, so that a wrong header cannot allocate huge memory.
  constexpr int64_t step = int64_t(1) << 20;
  int64_t have = 0;
  while (have < expected) {
    const int64_t want = std::min(expected - have, step);
    idx.bytes.resize(size_t(have + want));
    const int64_t got = int64_t(file.read(&idx.bytes[size_t(have)], size_t(want)));
    have += got;
    if (got < want) {
      fail("idx", path + " is truncated: got " + std::to_string(have) + " bytes of data, need " +
                      std::to_string(expected) + " by its header");
    }
  }
  uint8_t extra;
  if (file.read(&extra, 1) != 0) {
    fail("idx", path + " is longer than the " + std::to_string(expected) + " bytes of data its header says");
  }
  return idx;
}

// The only file in `folder` named stem-kind or stem.kind, with or without ".gz".
std::string find_file(const std::string& folder, const std::vector<std::string>& stems,
                      const std::string& kind) {
  std::vector<std::string> found;
  for (const std::string& name : list_folder(folder).files) {
    const std::string bare = name.ends_with(".gz") ? name.substr(0, name.size() - 3) : name;
    for (const std::string& stem : stems) {
      if (bare.ends_with(stem + "-" + kind) || bare.ends_with(stem + "." + kind)) found.push_back(name);
    }
  }
  if (found.empty()) fail("idx", folder + " holds no " + stems[0] + "-" + kind + "[.gz]");
  // A file and its gzipped copy are the same data.
  if (found.size() == 2 && found[1] == found[0] + ".gz") found.pop_back();
  if (found.size() > 1) {
    fail("idx", folder + " holds several sets: got " + found[0] + " and " + found[1] +
                    ", need one; put each set in its own folder");
  }
  return (fs::path(folder) / found[0]).string();
}

std::vector<std::string> read_classes(const std::string& folder) {
  const std::string path = (fs::path(folder) / "classes.txt").string();
  std::vector<std::string> classes;
  if (!fs::exists(path)) {
    for (int i = 0; i < 10; ++i) classes.push_back(std::to_string(i));
    return classes;
  }
  classes = read_lines(path);
  if (classes.empty()) fail("idx", path + " holds no class name: need one a line");
  return classes;
}

class IdxDataset : public Dataset {
 public:
  IdxDataset(const std::string& images_path, const std::string& labels_path, std::vector<std::string> classes)
      : stem_(fs::path(images_path).filename().string() + "#"),
        images_(read_idx<3>(images_path)),
        labels_(read_idx<1>(labels_path)),
        classes_(std::move(classes)) {
    if (images_.dims[0] != labels_.dims[0]) {
      fail("idx", "counts differ: " + images_path + " has " + std::to_string(images_.dims[0]) + " images, " +
                      labels_path + " has " + std::to_string(labels_.dims[0]) + " labels");
    }
    if (images_.dims[1] > kMaxSide || images_.dims[2] > kMaxSide) {
      fail("idx", images_path + " has too large images: got " + std::to_string(images_.dims[1]) + " x " +
                      std::to_string(images_.dims[2]) + ", need at most 16384 x 16384");
    }
    for (size_t i = 0; i < labels_.bytes.size(); ++i) {
      if (labels_.bytes[i] >= classes_.size()) {
        fail("idx",
             labels_path + ": label " + std::to_string(i) + " is out of range: got " +
                 std::to_string(labels_.bytes[i]) + ", need 0 to " + std::to_string(classes_.size() - 1) +
                 "; if the set has more classes, put their names in classes.txt beside it, one a line");
      }
    }
  }

  int64_t size() const override { return images_.dims[0]; }
  int64_t label(int64_t i) const override { return labels_.bytes.at(size_t(i)); }
  std::string name(int64_t i) const override { return stem_ + std::to_string(i); }
  const std::vector<std::string>& classes() const override { return classes_; }

  Sample get(int64_t i) const override {
    Sample sample{Image(int(images_.dims[2]), int(images_.dims[1]), 1), label(i), i};
    const size_t length = sample.image.pixels.size();
    std::copy_n(images_.bytes.begin() + int64_t(size_t(i) * length), length, sample.image.pixels.begin());
    return sample;
  }

 private:
  static constexpr int64_t kMaxSide = 16384;

  std::string stem_;
  Idx<3> images_;
  Idx<1> labels_;
  std::vector<std::string> classes_;
};

}  // namespace

std::unique_ptr<Dataset> open_idx(const std::string& path, Split split) {
  const std::vector<std::string> stems =
      split == Split::train ? std::vector<std::string>{"train"} : std::vector<std::string>{"t10k", "test"};
  std::vector<std::string> images, labels;
  for (const std::string& stem : stems) {
    images.push_back(stem + "-images");
    labels.push_back(stem + "-labels");
  }
  const std::string images_path = find_file(path, images, "idx3-ubyte");
  const std::string labels_path = find_file(path, labels, "idx1-ubyte");
  return std::make_unique<IdxDataset>(images_path, labels_path, read_classes(path));
}

namespace {

const DatasetFormats::Entry registered{
    {.name = "idx",
     .files = "train-images-idx3-ubyte[.gz] and its three companions",
     .find = [](const std::string& path) { return folder_with(path, "raw", {"idx3-ubyte"}); },
     .open = [](const std::string& folder, Split split,
                const DatasetOptions&) { return open_idx(folder, split); }}};

}  // namespace

}  // namespace pursuit::data

#include "data/shards.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include "data/decoded_files.h"
#include "data/files.h"
#include "data/jpeg_turbo.h"
#include "data/png.h"
#include "data/resize.h"
#include "data/shard_file.h"
#include "engine/base/error.h"
#include "engine/cpu/parallel.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

uint64_t number_of(Split split) { return split == Split::train ? 0 : 1; }

std::string prefix_of(Split split) { return split == Split::train ? "train-" : "test-"; }

std::string shard_path(const std::string& folder, Split split, int64_t number) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "%05lld", static_cast<long long>(number));
  return (fs::path(folder) / (prefix_of(split) + digits + ".shard")).string();
}

// What the heads of all shards of a split have in common.
ShardHead head_of(Split split, int64_t total, const PackOptions& options) {
  ShardHead head;
  head.shorter = options.packing == Packing::raw ? uint32_t(options.shorter) : 0;
  std::memcpy(head.source, options.source.data(), std::min(options.source.size(), sizeof head.source));
  head.total = uint64_t(total);
  head.limit = uint64_t(options.shard_bytes);
  head.split = number_of(split);
  return head;
}

bool are_of_one_set(const ShardHead& a, const ShardHead& b) {
  return std::equal(a.source, a.source + sizeof a.source, b.source) && a.shorter == b.shorter &&
         a.total == b.total && a.split == b.split;
}

// A picture as it is packed; no bytes: left out.
struct Record {
  std::vector<uint8_t> bytes;
  int width = 0, height = 0;
};

Record record_of(const Dataset& data, int64_t i, const PackOptions& options) {
  if (options.packing == Packing::files) {
    const std::string name = data.name(i);
    std::error_code none;
    if (!fs::is_regular_file(name, none))
      fail("pack", name +
                       " is no file of its own; pack this data with --packing raw, or, if these are shards, "
                       "the folder that they were made of");
    Record record{read_bytes(name)};
    if (record.bytes.empty())
      fail("pack", name + " is empty; remove it, or pack with --packing raw and --skip-bad");
    return record;
  }
  const Sample sample = data.get(i);
  if (sample.index < 0) return {};
  const bool large = std::min(sample.image.width, sample.image.height) > options.shorter;
  Image image = large ? resize_shorter(sample.image, options.shorter, Filter::bicubic) : sample.image;
  return {std::move(image.pixels), image.width, image.height};
}

class Shards : public Dataset {
 public:
  Shards(const std::string& root, Split split, const DatasetOptions& options)
      : decoding_(options.decoding), prepare_(options.prepare) {
    int64_t end = 0, total = 1;
    for (int64_t number = 0; end < total; ++number) {
      const std::string path = shard_path(root, split, number);
      if (!fs::exists(path))
        fail("shards", path + " is missing: packing was not finished, or the file was removed; pack again");
      shards_.push_back(std::make_unique<Shard>(path));
      const Shard &shard = *shards_.back(), &first = *shards_.front();
      const ShardHead& head = shard.head();
      if (head.split != number_of(split))
        fail("shards", path + " holds pictures of the other split: it was renamed; give it its name back");
      if (int64_t(head.first) != end || !are_of_one_set(head, first.head()) || shard.set() != first.set())
        fail("shards", path + " does not follow the shard before it: they are of different data; pack again");
      if (shard.end() == end && head.total > 0) fail("shards", path + " has no pictures; pack again");
      for (size_t i = 0; i < shard.entries().size(); ++i) places_.push_back({uint32_t(number), uint32_t(i)});
      end = shard.end();
      total = int64_t(head.total);
    }
    if (places_.empty()) fail("shards", root + " holds no pictures of this split");
    if (!is_raw()) check_decoder(decoding_);
    use_classes(options.classes, root);
    pictures_.emplace(
        root, size(), [this](int64_t i) { return whole(i); },
        [](const Image& image) { return int64_t(image.pixels.size()); }, options.skip_bad,
        options.cache_bytes);
  }

  int64_t size() const override { return int64_t(places_.size()); }
  int64_t label(int64_t i) const override { return labels_[size_t(entry(i).label)]; }
  std::string name(int64_t i) const override {
    return fs::path(shard_of(i).path()).filename().string() + "#" + kept_name(i);
  }
  // A file as it is counts as the same data as the file in a folder.
  std::optional<SampleId> id(int64_t i) const override {
    const ShardEntry& e = entry(i);
    return SampleId{kept_name(i), is_raw() ? int64_t(e.hash) : int64_t(e.bytes)};
  }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::vector<int64_t> present_classes() const override { return present_; }
  std::string test_split() const override { return shards_[0]->set().test_split; }
  int64_t skipped() const override { return pictures_->bad(); }

  Sample get(int64_t i) const override {
    auto [image, found] =
        is_raw() ? pictures_->get(i, [this](int64_t c) { return raw(c, {}); }) : pictures_->get(i);
    return {std::move(image), label(found), found == i ? i : -1};
  }

  Sample get_part(int64_t i, const ChoosePart& choose) const override {
    if (!is_raw() && (decoding_.decoder != Decoder::turbo || is_png_file(kept_name(i))))
      return Dataset::get_part(i, choose);
    auto [image, found] = pictures_->get(i, [&](int64_t candidate) {
      if (is_raw()) return raw(candidate, choose);
      const std::span<const uint8_t> bytes = record(candidate);
      if (is_png(bytes.data(), bytes.size())) return part_of(pictures_->cached(candidate), choose);
      return decode_part(bytes.data(), bytes.size(), name(candidate), decoding_, choose);
    });
    return {std::move(image), label(found), found == i ? i : -1};
  }

 private:
  struct Place {
    uint32_t shard, entry;
  };

  bool is_raw() const { return shards_[0]->head().shorter > 0; }
  const Shard& shard_of(int64_t i) const { return *shards_[places_.at(size_t(i)).shard]; }
  const ShardEntry& entry(int64_t i) const { return shard_of(i).entries()[places_[size_t(i)].entry]; }
  const std::string& kept_name(int64_t i) const { return shard_of(i).name(places_[size_t(i)].entry); }
  // Until the next call of this thread.
  std::span<const uint8_t> record(int64_t i) const {
    static thread_local std::vector<uint8_t> buffer;
    return shard_of(i).picture(places_[size_t(i)].entry, buffer);
  }

  Image whole(int64_t i) const {
    const std::span<const uint8_t> bytes = record(i);
    Image image = decode_image(bytes.data(), bytes.size(), name(i), decoding_);
    return prepare_ ? prepare_(std::move(image)) : image;
  }

  // A part of a raw picture; without `choose` all of it.
  Image raw(int64_t i, const ChoosePart& choose) const {
    const ShardEntry& e = entry(i);
    const std::span<const uint8_t> bytes = record(i);
    const int width = int(e.width), height = int(e.height);
    const Box box = choose ? choose(width, height).box : Box{0, 0, width, height};
    check_part("shards", box, width, height);
    const size_t channels = bytes.size() / (size_t(width) * size_t(height));
    Image out(box.width, box.height, int(channels));
    for (int y = 0; y < box.height; ++y)
      std::memcpy(out.at(0, y), &bytes[(size_t(box.y + y) * size_t(width) + size_t(box.x)) * channels],
                  size_t(box.width) * channels);
    return out;
  }

  // Labels by the classes of a trained model, if there is one; by default those that were packed.
  void use_classes(const std::vector<std::string>& wanted, const std::string& root) {
    const ShardSet& set = shards_[0]->set();
    classes_ = wanted.empty() ? set.classes : wanted;
    labels_.resize(set.classes.size(), -1);
    for (size_t c = 0; c < set.classes.size(); ++c) {
      const auto at = std::find(classes_.begin(), classes_.end(), set.classes[c]);
      if (at != classes_.end()) labels_[c] = at - classes_.begin();
    }
    for (const int64_t c : set.present) {
      if (labels_[size_t(c)] < 0)
        fail("shards", root + ": its class " + set.classes[size_t(c)] + " is none of the " +
                           std::to_string(classes_.size()) + " classes of the training data");
      present_.push_back(labels_[size_t(c)]);
    }
    std::sort(present_.begin(), present_.end());
  }

  const Decoding decoding_;
  const std::function<Image(Image)> prepare_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<Place> places_;
  std::vector<std::string> classes_;
  std::vector<int64_t> labels_, present_;  // labels_: by the packed ones
  std::optional<DecodedFiles<Image>> pictures_;
};

// A whole shard of an earlier call that goes on at `first`, or nothing if it is missing, cut off or damaged.
std::unique_ptr<Shard> kept_shard(const std::string& path, int64_t first, const PackOptions& options) {
  if (!fs::exists(path)) return nullptr;
  try {
    auto shard = std::make_unique<Shard>(path);
    if (int64_t(shard->head().first) != first || !shard->check(options.stop)) return nullptr;
    return shard;
  } catch (const DamagedShard&) {
    return nullptr;
  }
}

}  // namespace

LockedFile lock_shards(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("pack", "cannot create " + folder + ": " + error.message());
  // NFS locks a folder on this machine alone, and a file only if it is open for writing.
  const std::string path = (fs::path(folder) / ".lock").string();
  LockedFile lock(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  if (lock.descriptor() < 0 && (errno == EROFS || errno == EACCES))  // whole shards are only checked
    lock = LockedFile(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.descriptor() < 0) fail("pack", path + " cannot be opened: " + std::strerror(errno));
  if (!lock.lock_now("pack", folder))
    fail("pack", "another process packs into " + folder + "; wait for it, or give another --out");
  return lock;
}

void check_shards(const std::string& folder, Split split, const Dataset& data, const PackOptions& options) {
  if (!are_class_names(data.classes()))
    fail("pack", "the data has two classes of one name, or a name that is not UTF-8; rename the class");
  const ShardHead ours = head_of(split, data.size(), options);
  for (const std::string& name : list_folder(folder).files) {
    if (!name.starts_with(prefix_of(split)) || !name.ends_with(".shard")) continue;
    const std::string path = (fs::path(folder) / name).string();
    ShardHead head;
    try {
      head = read_shard_head(path);
      if (!are_of_one_set(head, ours) || head.limit != ours.limit) Shard whole(path);
    } catch (const DamagedShard&) {
      continue;  // packed again
    }
    if (!are_of_one_set(head, ours))
      fail("pack", path + " is of other data or was packed in another way; give another --out, or remove it");
    if (head.limit != ours.limit)
      fail("pack", path + " was packed with shards of " + std::to_string(head.limit) + " bytes, not " +
                       std::to_string(ours.limit) +
                       "; give the same --shard-mib, another --out, or remove it");
  }
}

Packed pack(const Dataset& data, Split split, const std::string& folder, const PackOptions& options) {
  constexpr int64_t least = int64_t(sizeof(ShardHead)) + 1;
  if (options.shorter < 1 || options.shard_bytes < least)
    fail("pack", "got a shorter side of " + std::to_string(options.shorter) + " and shards of " +
                     std::to_string(options.shard_bytes) + " bytes, need at least 1 and " +
                     std::to_string(least));
  const ShardSet set{data.classes(), data.present_classes(), data.test_split()};
  check_shards(folder, split, data, options);
  remove_leftovers(folder);
  ShardHead head = head_of(split, data.size(), options);
  const auto stopped = [&] { return options.stop && options.stop(); };

  Packed packed;
  int64_t next = 0;
  while (next < data.size()) {
    const std::string path = shard_path(folder, split, packed.shards);
    const auto kept = kept_shard(path, next, options);
    if (stopped()) return packed;
    if (kept) {
      packed.pictures += int64_t(kept->entries().size());
      packed.left_out += kept->end() - next - int64_t(kept->entries().size());
      next = kept->end();
      ++packed.shards, ++packed.kept;
      if (options.tick) options.tick(next);
      continue;
    }
    head.first = uint64_t(next);
    ShardWriter shard(path, head);
    while (next < data.size() && shard.bytes() < options.shard_bytes) {
      if (stopped()) return packed;
      std::vector<Record> records(size_t(std::min(options.at_once, data.size() - next)));
      parallel_for(int64_t(records.size()), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) records[size_t(i)] = record_of(data, next + i, options);
      });
      for (Record& record : records) {
        if (shard.bytes() >= options.shard_bytes) break;  // the rest is read again for the next shard
        if (record.bytes.empty())
          ++packed.left_out;
        else
          shard.add(record.bytes, data.label(next), name_below(options.root, data.name(next)), record.width,
                    record.height);
        packed.pictures += !record.bytes.empty();
        ++next;
      }
      if (options.tick) options.tick(next);
    }
    shard.finish(next, set);
    ++packed.shards;
  }
  std::error_code error;
  for (int64_t stale = packed.shards; fs::remove(shard_path(folder, split, stale), error); ++stale) {
  }
  packed.complete = true;
  return packed;
}

std::unique_ptr<Dataset> open_shards(const std::string& path, Split split, const DatasetOptions& options) {
  return std::make_unique<Shards>(path, split, options);
}

namespace {

std::string find_shards(const std::string& path) {
  for (const std::string& name : list_folder(path).files)
    if (name.ends_with(".shard")) return path;
  return "";
}

const DatasetFormats::Entry registered{{.name = "shards",
                                        .files = "train-00000.shard and test-00000.shard",
                                        .find = find_shards,
                                        .open = open_shards}};

}  // namespace

}  // namespace pursuit::data

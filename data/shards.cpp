#include "data/shards.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include "data/decoded_files.h"
#include "data/jpeg_turbo.h"
#include "data/resize.h"
#include "data/shard_file.h"
#include "engine/base/error.h"
#include "engine/cpu/parallel.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kAtOnce = 64;  // pictures read together while packing

std::string shard_name(Split split, int64_t number) {
  char name[40];
  std::snprintf(name, sizeof name, "%s-%05lld.shard", split == Split::train ? "train" : "test",
                static_cast<long long>(number));
  return name;
}

std::string shard_path(const std::string& folder, Split split, int64_t number) {
  return (fs::path(folder) / shard_name(split, number)).string();
}

std::string source_of(const ShardHead& head) {
  return {head.source, strnlen(head.source, sizeof head.source)};
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
      fail("pack", name + " is no file of its own; pack this data with --packing raw");
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
      if (int64_t(head.first) != end || head.total != first.head().total ||
          head.shorter != first.head().shorter || source_of(head) != source_of(first.head()) ||
          shard.set() != first.set())
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
  int64_t label(int64_t i) const override {
    return labels_[size_t(shard_of(i).entries()[places_[size_t(i)].entry].label)];
  }
  std::string name(int64_t i) const override {
    const Shard& shard = shard_of(i);
    return fs::path(shard.path()).filename().string() + "#" + shard.name(places_[size_t(i)].entry);
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
    if (!is_raw() && decoding_.decoder != Decoder::turbo) return Dataset::get_part(i, choose);
    auto [image, found] = pictures_->get(i, [&](int64_t candidate) {
      if (is_raw()) return raw(candidate, choose);
      const std::span<const uint8_t> bytes = record(candidate);
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
  std::span<const uint8_t> record(int64_t i) const { return shard_of(i).picture(places_[size_t(i)].entry); }

  Image whole(int64_t i) const {
    const std::span<const uint8_t> bytes = record(i);
    Image image = decode_image(bytes.data(), bytes.size(), name(i), decoding_);
    return prepare_ ? prepare_(std::move(image)) : image;
  }

  // A part of a raw picture; without `choose` all of it.
  Image raw(int64_t i, const ChoosePart& choose) const {
    const ShardEntry& e = shard_of(i).entries()[places_[size_t(i)].entry];
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

// A whole shard of an earlier call that goes on at `first`, or nothing. Throws if it is of other data.
std::unique_ptr<Shard> kept_shard(const std::string& path, int64_t first, uint32_t shorter, int64_t total,
                                  const PackOptions& options) {
  if (!fs::exists(path)) return nullptr;
  std::unique_ptr<Shard> shard;
  try {
    shard = std::make_unique<Shard>(path);
    for (size_t i = 0; i < shard->entries().size(); ++i) shard->picture(i);  // compares its checksum
  } catch (const Error&) {
    return nullptr;
  }
  const ShardHead& head = shard->head();
  if (source_of(head) != options.source.substr(0, sizeof head.source) || head.shorter != shorter ||
      int64_t(head.total) != total)
    fail("pack", path + " is of other data or was packed in another way; give another --out, or remove it");
  return int64_t(head.first) == first ? std::move(shard) : nullptr;
}

}  // namespace

Packed pack(const Dataset& data, Split split, const std::string& folder, const PackOptions& options) {
  constexpr int64_t least = int64_t(sizeof(ShardHead)) + 1;
  if (options.shorter < 1 || options.shard_bytes < least)
    fail("pack", "got a shorter side of " + std::to_string(options.shorter) + " and shards of " +
                     std::to_string(options.shard_bytes) + " bytes, need at least 1 and " +
                     std::to_string(least));
  const uint32_t shorter = options.packing == Packing::raw ? uint32_t(options.shorter) : 0;
  const ShardSet set{data.classes(), data.present_classes(), data.test_split()};
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("pack", "cannot create " + folder + ": " + error.message());
  remove_leftovers(folder);
  const auto name_of = [&](int64_t i) {
    const std::string name = data.name(i);
    const fs::path below = fs::path(name).lexically_relative(options.root);
    return below.empty() || *below.begin() == ".." ? name : below.string();
  };

  Packed packed;
  int64_t next = 0;
  while (next < data.size()) {
    const std::string path = shard_path(folder, split, packed.shards);
    if (const auto kept = kept_shard(path, next, shorter, data.size(), options)) {
      packed.pictures += int64_t(kept->entries().size());
      packed.left_out += kept->end() - next - int64_t(kept->entries().size());
      next = kept->end();
      ++packed.shards, ++packed.kept;
      if (options.tick) options.tick(next);
      continue;
    }
    ShardWriter shard(path, shorter, options.source, data.size(), next);
    while (next < data.size() && shard.bytes() < options.shard_bytes) {
      if (options.stop && options.stop()) return packed;
      std::vector<Record> records(size_t(std::min(kAtOnce, data.size() - next)));
      parallel_for(int64_t(records.size()), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) records[size_t(i)] = record_of(data, next + i, options);
      });
      for (Record& record : records) {
        if (shard.bytes() >= options.shard_bytes) break;  // the rest is read again for the next shard
        if (record.bytes.empty())
          ++packed.left_out;
        else
          shard.add(record.bytes, data.label(next), name_of(next), record.width, record.height);
        packed.pictures += !record.bytes.empty();
        ++next;
      }
      if (options.tick) options.tick(next);
    }
    shard.finish(next, set);
    ++packed.shards;
  }
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

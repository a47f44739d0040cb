#include "data/shard_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "engine/base/text.h"

namespace pursuit::data {
namespace {

struct Foot {
  uint64_t end, count, index, hash;
};

static_assert(sizeof(ShardHead) == 64 && sizeof(ShardEntry) == 40 && sizeof(Foot) == 32);

uint64_t hash_of(std::span<const uint8_t> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

template <class T> std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

uint64_t checksum(const ShardHead& head, std::string_view index, const Foot& foot) {
  return shard_checksum(bytes_of(head), index, bytes_of(foot).substr(0, offsetof(Foot, hash)));
}

void put(std::string& out, const void* bytes, size_t count) {
  out.append(static_cast<const char*>(bytes), count);
}
void put_number(std::string& out, uint64_t number) { put(out, &number, sizeof number); }
void put_text(std::string& out, const std::string& text) {
  put_number(out, text.size());
  out += text;
}

// Reads an index; `ok` turns false where it ends too early.
struct Reader {
  std::string_view bytes;
  bool ok = true;

  bool take(void* to, uint64_t count) {
    ok = ok && count <= bytes.size();
    if (!ok) return false;
    if (count > 0) std::memcpy(to, bytes.data(), count);
    bytes.remove_prefix(count);
    return true;
  }
  uint64_t number() {
    uint64_t value = 0;
    return take(&value, sizeof value) ? value : 0;
  }
  // A length of items of at least `each` bytes.
  uint64_t length(uint64_t each) {
    const uint64_t count = number();
    ok = ok && count <= bytes.size() / each;
    return ok ? count : 0;
  }
  std::string text() {
    std::string out(length(1), '\0');
    take(out.data(), out.size());
    return out;
  }
  std::vector<std::string> texts(uint64_t count) {
    std::vector<std::string> out;
    while (ok && out.size() < count) out.push_back(text());
    return out;
  }
};

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw DamagedShard("[shards] " + path + " " + what + "; pack the data again");
}

// Throws unless the first bytes of a file are the head of a shard that this program reads.
ShardHead head_of(std::string_view bytes, const std::string& path) {
  const ShardHead ours;
  ShardHead head;
  if (bytes.size() < sizeof head) damaged(path, "is cut off");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != ours.magic) fail("shards", path + " is no shard of a packed data set; remove it");
  if (head.version != ours.version)
    fail("shards", path + " has version " + std::to_string(head.version) + ", this program reads " +
                       std::to_string(ours.version) + "; remove it, and pack the data again");
  return head;
}

}  // namespace

bool are_class_names(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return std::adjacent_find(names.begin(), names.end()) == names.end() &&
         std::all_of(names.begin(), names.end(), [](const std::string& name) { return is_utf8(name); });
}

ShardHead read_shard_head(const std::string& path) {
  const InputFile file(path);
  char bytes[sizeof(ShardHead)];
  const size_t count = std::min(file.size(), sizeof bytes);
  file.read(0, bytes, count);
  return head_of({bytes, count}, path);
}

uint64_t shard_checksum(std::string_view head, std::string_view index, std::string_view foot) {
  uint64_t hash = 0;
  for (const std::string_view part : {head, index, foot})
    hash = XXH3_64bits_withSeed(part.data(), part.size(), hash);
  return hash;
}

ShardWriter::ShardWriter(const std::string& path, const ShardHead& head)
    : file_(path), head_(head), position_(sizeof head_) {
  file_.write(&head_, sizeof head_);
}

void ShardWriter::add(std::span<const uint8_t> bytes, int64_t label, const std::string& name, int width,
                      int height) {
  file_.write(bytes.data(), bytes.size());
  entries_.push_back({position_, bytes.size(), hash_of(bytes), label, uint32_t(width), uint32_t(height)});
  names_.push_back(name);
  position_ += bytes.size();
}

void ShardWriter::finish(int64_t end, const ShardSet& set) {
  std::string index;
  put(index, entries_.data(), entries_.size() * sizeof(ShardEntry));
  for (const std::string& name : names_) put_text(index, name);
  put_number(index, set.classes.size());
  for (const std::string& name : set.classes) put_text(index, name);
  put_number(index, set.present.size());
  put(index, set.present.data(), set.present.size() * sizeof(int64_t));
  put_text(index, set.test_split);
  Foot foot{uint64_t(end), entries_.size(), position_, 0};
  foot.hash = checksum(head_, index, foot);
  file_.write(index.data(), index.size());
  file_.write(&foot, sizeof foot);
  file_.commit();
}

Shard::Shard(const std::string& path) : file_(std::make_unique<MappedFile>(path)) {
  const std::string_view bytes = file_->bytes();
  head_ = head_of(bytes, path);
  if (bytes.size() < sizeof head_ + sizeof(Foot)) damaged(path, "is cut off");
  Foot foot;
  std::memcpy(&foot, bytes.data() + bytes.size() - sizeof foot, sizeof foot);
  const uint64_t index_end = bytes.size() - sizeof foot;
  if (foot.index < sizeof head_ || foot.index > index_end)
    damaged(path, "is cut off or damaged: its index is not where its end says");
  const std::string_view index = bytes.substr(foot.index, index_end - foot.index);
  if (checksum(head_, index, foot) != foot.hash)
    damaged(path, "is cut off or damaged: its index has another checksum");

  // From here on a mistake is the writer's, but no number is trusted for that.
  Reader in{index};
  in.ok = foot.count <= index.size() / sizeof(ShardEntry);
  entries_.resize(in.ok ? foot.count : 0);
  in.take(entries_.data(), entries_.size() * sizeof(ShardEntry));
  names_ = in.texts(foot.count);
  set_.classes = in.texts(in.length(sizeof(uint64_t)));
  set_.present.resize(in.length(sizeof(int64_t)));
  in.take(set_.present.data(), set_.present.size() * sizeof(int64_t));
  set_.test_split = in.text();
  const std::vector<int64_t>& present = set_.present;
  bool sound = in.ok && in.bytes.empty() && head_.first <= foot.end && foot.end <= head_.total &&
               foot.count <= foot.end - head_.first && head_.total <= uint64_t(1) << 40 && head_.split <= 1 &&
               are_class_names(set_.classes) &&
               std::adjacent_find(present.begin(), present.end(), std::greater_equal<>()) == present.end() &&
               (present.empty() || (present.front() >= 0 && present.back() < int64_t(set_.classes.size())));
  for (const ShardEntry& e : entries_) {
    sound = sound && std::binary_search(present.begin(), present.end(), e.label) &&
            e.offset >= sizeof head_ && e.offset <= foot.index && e.bytes <= foot.index - e.offset;
    const uint64_t pixels = uint64_t(e.width) * e.height;
    if (head_.shorter > 0)
      sound = sound && e.width > 0 && e.height > 0 && e.width < 1 << 27 && e.height < 1 << 27 &&
              (e.bytes == pixels || e.bytes == 3 * pixels);
  }
  if (!sound) damaged(path, "is damaged: its index does not fit its pictures");
  end_ = int64_t(foot.end);
}

void Shard::require_same(size_t i, std::span<const uint8_t> bytes) const {
  if (hash_of(bytes) != entries_[i].hash)
    damaged(path() + ":", names_[i] + " is damaged: its bytes have another checksum");
}

std::span<const uint8_t> Shard::picture(size_t i, std::vector<uint8_t>& buffer) const {
  const ShardEntry& e = entries_[i];
  if (buffer.size() < e.bytes) buffer.resize(e.bytes);
  if (e.bytes > 0) std::memcpy(buffer.data(), file_->bytes().data() + e.offset, e.bytes);
  const std::span<const uint8_t> bytes(buffer.data(), e.bytes);
  require_same(i, bytes);
  return bytes;
}

bool Shard::check(const std::function<bool()>& stop) const {
  const InputFile file(path());  // what is read of a mapping would stay in memory
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (stop && stop()) return false;
    bytes.resize(entries_[i].bytes);
    file.read(entries_[i].offset, bytes.data(), bytes.size());
    require_same(i, bytes);
  }
  return true;
}

}  // namespace pursuit::data

#include <algorithm>
#include <cstring>

#include "data/shard_file.h"
#include "data/shards.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

namespace {

constexpr size_t kHead = sizeof(data::ShardHead), kFoot = 24, kHash = 8;
constexpr size_t kIndexInFoot = 16;

void read(std::string_view input) {
  const std::string file = write("shards/train-00000.shard", input);
  try {
    data::open_shards(path_of("shards"), data::Split::train, {.classes = {"b", "a"}});
  } catch (const Error&) {
  }
  const auto set = data::open_shards(path_of("shards"), data::Split::train, {});
  for (int64_t i = 0; i < std::min<int64_t>(set->size(), 3); ++i) {
    set->name(i);
    set->get_part(i, [](int width, int height) {
      return data::Part{{0, height / 2, width, height - height / 2}};
    });
    set->get(i);
  }
}

// Head, pictures, index, and the foot without its checksum.
Parts split(std::string_view input) {
  if (input.size() < kHead + kFoot + kHash) return {};
  uint64_t index;
  const size_t end = input.size() - kFoot - kHash;
  std::memcpy(&index, &input[end + kIndexInFoot], sizeof index);
  if (index < kHead || index > end) return {};
  return {std::string(input.substr(0, kHead)), std::string(input.substr(kHead, index - kHead)),
          std::string(input.substr(index, end - index)), std::string(input.substr(end, kFoot))};
}

std::string join(const Parts& parts) {
  std::string all = parts[0] + parts[1] + parts[2] + parts[3];
  const uint64_t sum = data::shard_checksum(parts[0], parts[2], parts[3]);
  all.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  return all;
}

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  const std::vector<uint8_t> raw(4 * 3 * 3, 77);
  const std::vector<uint8_t> png = data::encode_png(data::Image(5, 4, 3));
  for (const uint32_t shorter : {0u, 3u}) {
    const std::string path = path_of("seed.shard");
    data::ShardHead head;
    head.shorter = shorter;
    head.total = 2;
    data::ShardWriter writer(path, head);
    for (int64_t i = 0; i < 2; ++i)
      writer.add(shorter ? raw : png, i, "train/a/1.png", shorter ? 4 : 0, shorter ? 3 : 0);
    writer.finish(2, {{"a", "b"}, {0, 1}, "val"});
    all.push_back(read_file(path));
  }
  return all;
}

}  // namespace

const Target target{.read = read, .split = split, .join = join, .seeds = seeds};

}  // namespace pursuit::fuzz

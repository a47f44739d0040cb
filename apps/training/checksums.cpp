#include "apps/training/checksums.h"

#include <fmt/format.h>

#include <vector>

#include "apps/run/json.h"
#include "engine/base/error.h"
#include "engine/cpu/parallel.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace pursuit::apps {

namespace {

using Json = nlohmann::ordered_json;
using Words = std::map<std::string, std::string>;

constexpr const char *key = "xxh3_64", *of_metadata = "__metadata__";

std::string digits(uint64_t sum) { return fmt::format("{:016x}", sum); }

std::string checksum(const Words& metadata) {
  std::string all;
  for (const auto& [name, word] : metadata)
    if (name != key) all += name + '\0' + word + '\0';
  return digits(XXH3_64bits(all.data(), all.size()));
}

Words checksums(const std::map<std::string, Tensor>& tensors) {
  const std::vector<std::pair<std::string, Tensor>> list(tensors.begin(), tensors.end());
  std::vector<uint64_t> sums(list.size());
  parallel_for(int64_t(list.size()), 1, [&](int64_t begin, int64_t end) {
    for (size_t i = size_t(begin); i < size_t(end); ++i)
      sums[i] = XXH3_64bits(list[i].second.raw(), size_t(list[i].second.bytes()));
  });
  Words all;
  for (size_t i = 0; i < list.size(); ++i) all[list[i].first] = digits(sums[i]);
  return all;
}

}  // namespace

void add_checksums(const std::map<std::string, Tensor>& tensors, Words& metadata) {
  Words all = checksums(tensors);
  all[of_metadata] = checksum(metadata);
  metadata[key] = Json(all).dump();
}

bool verify_checksums(const TensorFile& file, const std::string& path) {
  const auto words = file.metadata.find(key);
  if (words == file.metadata.end()) return false;
  const Json said = Json::parse(words->second, nullptr, false);
  const auto verify = [&](const std::string& what, const std::string& name, const std::string& sum) {
    const auto found = said.is_object() ? said.find(name) : said.end();
    if (found == said.end() || *found != sum)
      fail("checkpoint", fmt::format("{}: {} is damaged: its checksum is {}, need {}", path, what, sum,
                                     found == said.end() ? "one that is not there" : found->dump()));
  };
  verify("the metadata", of_metadata, checksum(file.metadata));
  for (const auto& [name, sum] : checksums(file.tensors)) verify(name, name, sum);
  return true;
}

}  // namespace pursuit::apps

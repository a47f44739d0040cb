#include "apps/run/files.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "apps/page/heatmap.h"
#include "apps/run/evaluations.h"
#include "apps/run/json.h"
#include "apps/run/metrics.h"
#include "apps/run/run_folder.h"
#include "apps/run/tensorboard.h"
#include "apps/terminal/text.h"
#include "engine/base/error.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

using namespace pursuit::apps;
using pursuit::Error;

namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

void write_plain(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// CRC computed bit by bit, independently of the table-driven implementation under test.
uint32_t bitwise_crc32c(const std::string& bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (const char c : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const uint32_t mixed = (crc ^ (static_cast<unsigned char>(c) >> bit)) & 1u;
      crc = (crc >> 1) ^ (mixed ? 0x82F63B78u : 0u);
    }
  return ~crc;
}

template <class T> T read_number(const std::string& bytes, size_t& at) {
  REQUIRE(at + sizeof(T) <= bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  at += sizeof(T);
  return value;
}

std::vector<std::string> read_records(const std::string& bytes) {
  std::vector<std::string> records;
  const auto unmask = [](uint32_t masked) {
    const uint32_t rotated = masked - 0xA282EAD8u;
    return (rotated >> 17) | (rotated << 15);
  };
  for (size_t at = 0; at < bytes.size();) {
    const std::string header = bytes.substr(at, 8);
    const auto length = read_number<uint64_t>(bytes, at);
    CHECK(unmask(read_number<uint32_t>(bytes, at)) == bitwise_crc32c(header));
    REQUIRE(at + length <= bytes.size());
    records.push_back(bytes.substr(at, length));
    at += length;
    CHECK(unmask(read_number<uint32_t>(bytes, at)) == bitwise_crc32c(records.back()));
  }
  return records;
}

struct Field {
  uint64_t number = 0, integer = 0;  // integer: varints and the raw bits of fixed-width values
  std::string bytes;
};

uint64_t read_varint(const std::string& bytes, size_t& at) {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    const auto byte = read_number<uint8_t>(bytes, at);
    value |= uint64_t(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  FAIL("varint does not end");
  return 0;
}

std::vector<Field> read_message(const std::string& bytes) {
  std::vector<Field> fields;
  for (size_t at = 0; at < bytes.size();) {
    const uint64_t key = read_varint(bytes, at);
    Field field{key >> 3, 0, ""};
    if ((key & 7) == 0) {
      field.integer = read_varint(bytes, at);
    } else if ((key & 7) == 1) {
      field.integer = read_number<uint64_t>(bytes, at);
    } else if ((key & 7) == 5) {
      field.integer = read_number<uint32_t>(bytes, at);
    } else {
      REQUIRE((key & 7) == 2);
      const uint64_t length = read_varint(bytes, at);
      REQUIRE(at + length <= bytes.size());
      field.bytes = bytes.substr(at, length);
      at += length;
    }
    fields.push_back(field);
  }
  return fields;
}

float float_of(uint64_t bits) {
  const auto low = static_cast<uint32_t>(bits);
  float value;
  std::memcpy(&value, &low, 4);
  return value;
}

}  // namespace

TEST_CASE("atomic write replaces a file and leaves no temporary behind") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.txt");
  write_file_atomically(path, "old");
  write_file_atomically(path, std::string("new\0bytes", 9));
  CHECK(read_file(path) == std::string("new\0bytes", 9));
  CHECK(folder.entries() == 1);
}

TEST_CASE("a failed atomic write names the file and leaves the old content") {
  const TemporaryFolder folder;
  const std::string missing = folder.file("no/such/folder/a.txt");
  CHECK(contains(message_of([&] { write_file_atomically(missing, "x"); }), missing));
  CHECK(contains(message_of([&] { read_file(missing); }), missing));

  const std::string target = folder.file("target");
  std::filesystem::create_directory(target);
  write_plain(target + "/inside", "kept");
  CHECK(contains(message_of([&] { write_file_atomically(target, "x"); }), target));
  CHECK(read_file(target + "/inside") == "kept");
  CHECK(folder.entries() == 1);
}

TEST_CASE("metrics are written and read back, values that are not finite as null") {
  const TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  MetricsWriter writer(path);
  writer.write(1, {{"loss", 2.5}, {"lr", 0.001}});
  writer.write(2, {{"loss", nan_value}});
  CHECK(read_file(path) == "{\"step\":1,\"loss\":2.5,\"lr\":0.001}\n{\"step\":2,\"loss\":null}\n");
  const auto lines = read_metrics(path);
  REQUIRE(lines.size() == 2);
  const auto loss = metric_series(lines, "loss");
  REQUIRE(loss.size() == 2);
  CHECK(loss[0] == std::pair(1.0, 2.5));
  CHECK(std::isnan(loss[1].second));
  CHECK(metric_series(lines, "lr").size() == 1);
  CHECK_THROWS_AS(writer.write(3, {{"step", 3}}), Error);
}

TEST_CASE("resuming drops later steps and a torn last line, a new run starts empty") {
  const TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  write_plain(path,
              "{\"step\":1,\"x\":0.1}\n{\"step\":2,\"x\":0.2}\n{\"step\":3,\"x\":0.3}\n{\"step\":4,\"x");
  CHECK(read_metrics(path).size() == 3);
  {
    MetricsWriter writer(path, [](int64_t step, const auto&) { return step <= 2; });
    writer.write(3, {{"x", 9}});
  }
  CHECK(read_file(path) == "{\"step\":1,\"x\":0.1}\n{\"step\":2,\"x\":0.2}\n{\"step\":3,\"x\":9}\n");
  const MetricsWriter fresh(path);
  CHECK(read_file(path).empty());
}

TEST_CASE("a damaged line in the middle of metrics.jsonl is an error that names file and line") {
  const TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  write_plain(path, "{\"step\":1}\n{\"step\":\n{\"step\":3}\n");
  const std::string error = message_of([&] { read_metrics(path); });
  CHECK(contains(error, path));
  CHECK(contains(error, "line 2"));
}

TEST_CASE("crc32c agrees with the published check value and a bitwise reference") {
  CHECK(crc32c("123456789") == 0xE3069283u);
  CHECK(bitwise_crc32c("123456789") == 0xE3069283u);
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    CHECK(crc32c(bytes) == bitwise_crc32c(bytes));
    bytes += static_cast<char>(i * 37);
  }
}

TEST_CASE("event files are framed as TFRecords and hold the scalars") {
  const TemporaryFolder folder;
  TensorboardWriter writer(folder.file("tb"), 6);
  const TensorboardWriter other(folder.file("tb"));
  CHECK(other.path() != writer.path());
  CHECK(contains(writer.path(), "/events.out.tfevents."));
  writer.scalars(7, {{"train/loss", 0.1}, {"lr", -3e-4}});
  writer.scalars(int64_t(1) << 40, {{std::string(200, 't'), std::numeric_limits<double>::infinity()}});

  const auto records = read_records(read_file(writer.path()));
  REQUIRE(records.size() == 4);
  const auto version = read_message(records[0]);
  REQUIRE(version.size() == 3);
  CHECK(version[0].number == 1);
  CHECK(version[2].number == 3);
  CHECK(version[2].bytes == "brain.Event:2");

  const auto restart = read_message(records[1]);
  CHECK(restart[1].integer == 7);
  CHECK(restart[2].number == 7);
  CHECK(read_message(restart[2].bytes)[0].integer == 1);

  const auto event = read_message(records[2]);
  CHECK(event[1].number == 2);
  CHECK(event[1].integer == 7);
  CHECK(event[2].number == 5);
  const auto summary = read_message(event[2].bytes);
  REQUIRE(summary.size() == 2);
  const auto loss = read_message(summary[0].bytes), rate = read_message(summary[1].bytes);
  CHECK(loss[0].bytes == "train/loss");
  CHECK(float_of(loss[1].integer) == 0.1f);
  CHECK(rate[0].bytes == "lr");
  CHECK(float_of(rate[1].integer) == -3e-4f);

  const auto late = read_message(records[3]);
  CHECK(late[1].integer == uint64_t(1) << 40);
  const auto value = read_message(read_message(late[2].bytes)[0].bytes);
  CHECK(value[0].bytes == std::string(200, 't'));
  CHECK(std::isinf(float_of(value[1].integer)));
}

TEST_CASE("a JSON number is taken as it stands, or refused with what it would have to be") {
  const auto json = nlohmann::ordered_json::parse(
      R"({"large": 1e308, "negative": -1, "part": 1.5, "int": 2147483648, "list": [1, -1e300], "fits": 7})");
  CHECK(member_of<int64_t>(json, "fits") == 7);
  CHECK(member_of<int64_t>(json, "int") == 2147483648);
  const auto refused = [&](auto type, const char* name, const char* said) {
    CHECK_THROWS_WITH_AS(member_of<decltype(type)>(json, name), doctest::Contains(said), Error);
  };
  refused(int64_t(), "large", "'large' is 1e+308, need a whole number from -9223372036854775808");
  refused(uint64_t(), "large", "'large' is 1e+308, need a whole number from 0");
  refused(uint64_t(), "negative", "'negative' is -1");
  refused(int64_t(), "part", "'part' is 1.5");
  refused(int(), "int", "to 2147483647");
  refused(std::vector<int64_t>(), "list", "a list, each a whole number");
  // The same in eval.json.
  for (const char* key : {"count", "step"}) {
    nlohmann::ordered_json conditions = to_json(Conditions(), "count");
    conditions["made_by"] = nullptr;
    CHECK_NOTHROW(conditions_from_json(conditions, "count"));
    conditions[key] = 1e308;
    CHECK_THROWS_WITH_AS(conditions_from_json(conditions, "count"), doctest::Contains(key), Error);
  }
}

TEST_CASE("a path's last name is that of the folder it leads to") {
  CHECK(last_name("data/cifar10") == "cifar10");
  CHECK(last_name("data/cifar10//") == "cifar10");
  CHECK(last_name("data/x/../cifar10/.") == "cifar10");
  CHECK(last_name(".") == std::filesystem::current_path().filename());
  CHECK(last_name("./") == std::filesystem::current_path().filename());
  CHECK(last_name("..") == std::filesystem::current_path().parent_path().filename());
}

TEST_CASE("what stands for a run are results of the weights it is at") {
  struct Result {
    int64_t step, number;
  };
  TemporaryFolder folder;
  const auto numbers = [&](const std::vector<Result>& all) {
    std::vector<int64_t> out;
    for (const Result& r : of_last_step(all, RunFolder(folder.path.string()))) out.push_back(r.number);
    return out;
  };
  using Numbers = std::vector<int64_t>;
  // An imported run has no metrics: the latest evaluation counts.
  CHECK(numbers({{10, 0}, {20, 1}, {10, 2}}) == Numbers{0, 2});
  CHECK(numbers({}).empty());
  // Back at an earlier checkpoint; and an old evaluation that ended after the run went on.
  write_plain(folder.file("metrics.jsonl"), "{\"step\":20}\n");
  CHECK(numbers({{10, 0}, {20, 1}, {30, 2}, {10, 3}}) == Numbers{1});
  CHECK(numbers({{10, 0}, {30, 2}, {10, 3}}) == Numbers{0, 3});
}

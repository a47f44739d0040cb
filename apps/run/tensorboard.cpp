#include "apps/run/tensorboard.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "engine/base/error.h"

namespace pursuit::apps {
namespace {

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0u);
    table[i] = crc;
  }
  return table;
}

// TFRecord stores checksums masked, because a checksum over data that holds its own checksum is weak.
uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return std::rotr(crc, 15) + 0xA282EAD8u;
}

template <class Unsigned> std::string little_endian(Unsigned value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xFF);
  return bytes;
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  return bytes + static_cast<char>(value);
}

// Protocol buffer fields: the key is (field number << 3 | wire type).
std::string varint_field(uint32_t field, uint64_t value) { return varint(field << 3 | 0) + varint(value); }
std::string double_field(uint32_t field, double value) {
  return varint(field << 3 | 1) + little_endian(std::bit_cast<uint64_t>(value));
}
std::string bytes_field(uint32_t field, std::string_view value) {
  return varint(field << 3 | 2) + varint(value.size()) + std::string(value);
}
std::string float_field(uint32_t field, float value) {
  return varint(field << 3 | 5) + little_endian(std::bit_cast<uint32_t>(value));
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// tensorflow/core/util/event.proto: Event { double wall_time = 1; int64 step = 2; string file_version = 3;
// Summary summary = 5; SessionLog session_log = 7; }
std::string event(int64_t step, uint32_t content_field, std::string_view content) {
  return double_field(1, wall_time()) + varint_field(2, static_cast<uint64_t>(step)) +
         bytes_field(content_field, content);
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr auto table = make_crc_table();
  uint32_t crc = 0xFFFFFFFFu;
  for (const char byte : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

TensorboardWriter::TensorboardWriter(const std::string& folder, std::optional<int64_t> resume_step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail("tensorboard", "cannot create the folder '" + folder + "': " + error.message());
  const std::string name = folder + "/events.out.tfevents." +
                           std::to_string(static_cast<int64_t>(wall_time())) + "." + host_name();
  path_ = name;
  for (int number = 1; std::filesystem::exists(path_); ++number) path_ = name + "." + std::to_string(number);
  file_.open(path_, std::ios::binary | std::ios::trunc);
  if (!file_) fail("tensorboard", "cannot create '" + path_ + "'; check that the folder may be written to");
  write_record(event(0, 3, "brain.Event:2"));
  // SessionLog { status = 1: START } makes TensorBoard drop what it has read for this step and later ones.
  if (resume_step) write_record(event(*resume_step + 1, 7, varint_field(1, 1)));
}

void TensorboardWriter::scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  // Summary { repeated Value value = 1; }, Value { string tag = 1; float simple_value = 2; }
  std::string summary;
  for (const auto& [tag, value] : values)
    summary += bytes_field(1, bytes_field(1, tag) + float_field(2, static_cast<float>(value)));
  write_record(event(step, 5, summary));
}

void TensorboardWriter::write_record(std::string_view payload) {
  const std::string length = little_endian(static_cast<uint64_t>(payload.size()));
  file_ << length << little_endian(masked_crc32c(length)) << payload << little_endian(masked_crc32c(payload))
        << std::flush;
  if (!file_) fail("tensorboard", "cannot write to '" + path_ + "'; check the free space on the disk");
}

}  // namespace pursuit::apps

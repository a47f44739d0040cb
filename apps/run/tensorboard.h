#pragma once
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pursuit::apps {

// Writes a TensorBoard event file (events.out.tfevents.<time>.<host>) of scalars into a folder, which is
// created. The file is a sequence of TFRecords: length (u64), masked CRC32C of the length, payload, masked
// CRC32C of the payload, all little endian; the payload is a tensorflow.Event protocol buffer.
class TensorboardWriter {
 public:
  // With resume_step, TensorBoard hides values of later steps in the folder's earlier event files.
  explicit TensorboardWriter(const std::string& folder, std::optional<int64_t> resume_step = std::nullopt);

  // Writes the values of one step and flushes. Values are stored as f32. Throws pursuit::Error that names the
  // file.
  void scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values);

  const std::string& path() const { return path_; }

 private:
  void write_record(std::string_view payload);

  std::string path_;
  std::ofstream file_;
};

// CRC-32C (Castagnoli): polynomial 0x1EDC6F41, reflected; crc32c("123456789") is 0xE3069283.
uint32_t crc32c(std::string_view bytes);

}  // namespace pursuit::apps

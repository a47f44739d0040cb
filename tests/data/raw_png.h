#pragma once
#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

// A PNG written by hand, chunk by chunk: the encoder has neither palettes nor few bits. Every row begins with
// its filter.
inline std::vector<uint8_t> raw_png(int width, int height, int bits, int colour_type,
                                    const std::vector<uint8_t>& palette, const std::vector<uint8_t>& rows) {
  std::vector<uint8_t> out = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  const auto put32 = [](std::vector<uint8_t>& to, uint32_t v) {
    for (int s = 24; s >= 0; s -= 8) to.push_back(uint8_t(v >> s));
  };
  const auto chunk = [&](const std::string& type, const std::vector<uint8_t>& data) {
    put32(out, uint32_t(data.size()));
    const size_t from = out.size();
    out.insert(out.end(), type.begin(), type.end());
    out.insert(out.end(), data.begin(), data.end());
    put32(out, uint32_t(crc32(0, &out[from], uInt(out.size() - from))));
  };
  std::vector<uint8_t> header;
  put32(header, uint32_t(width));
  put32(header, uint32_t(height));
  for (int v : {bits, colour_type, 0, 0, 0}) header.push_back(uint8_t(v));
  chunk("IHDR", header);
  if (!palette.empty()) chunk("PLTE", palette);
  uLongf size = compressBound(uLong(rows.size()));
  std::vector<uint8_t> packed(size);
  compress(packed.data(), &size, rows.data(), uLong(rows.size()));
  packed.resize(size);
  chunk("IDAT", packed);
  chunk("IEND", {});
  return out;
}

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "engine/files/atomic_file.h"
#include "engine/files/half.h"
#include "engine/files/mapped_file.h"
#include "engine/files/safetensors.h"
#include "engine/ops.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
namespace fs = std::filesystem;

namespace {

using Values = std::vector<double>;

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
}

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string little_endian(uint64_t n) {
  std::string s;
  for (int i = 0; i < 8; ++i) s += char(n >> (8 * i) & 255);
  return s;
}

std::string container(const std::string& header, size_t data_bytes) {
  return little_endian(header.size()) + header + std::string(data_bytes, '\0');
}

// The message for a file of these bytes, which must name the file; "" if it was read.
std::string safetensors_message(const std::string& bytes) {
  const TemporaryFolder folder;
  write(folder.file("hostile.bin"), bytes);
  try {
    load_safetensors(folder.file("hostile.bin"));
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("hostile.bin") != std::string::npos);
    return e.what();
  }
  return "";
}

void check_rejected(const std::string& header, size_t data_bytes, const char* why) {
  const std::string message = safetensors_message(container(header, data_bytes));
  INFO(header);
  CHECK_MESSAGE(message.find(why) != std::string::npos, message);
}

template <class T> std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

TEST_CASE("safetensors: what is saved is loaded, bit for bit") {
  const TemporaryFolder folder;
  const std::string path = folder.file("model.safetensors");
  const Tensor x = normal({3, 5}, 0, 1, 1, 1);
  const Tensor special = from_vector<float>({NAN, INFINITY, -INFINITY, -0.0f, 1e-45f}, {5});
  const std::map<std::string, Tensor> tensors = {
      {"layer.weight", x},
      {"turned", x.transpose(0, 1)},
      {"half", x.to(DType::bf16)},
      {"wide", x.to(DType::f64)},
      {"ids", arange(7)},
      {"labels", arange(3, DType::i32)},
      {"bytes", arange(3, DType::u8)},
      {"codes", from_vector<int8_t>({-128, -1, 0, 127}, {4})},
      {"scalar", full({}, 2.5)},
      {"none", zeros({0, 4})},
      {"special", special},
      {"\xc3\xa4 \"quoted\"\n", full({1}, 1)},
  };
  save_safetensors(path, tensors, {{"format", "pt"}, {"step", "12"}});
  const TensorFile loaded = load_safetensors(path);
  CHECK(loaded.metadata == std::map<std::string, std::string>{{"format", "pt"}, {"step", "12"}});
  REQUIRE(loaded.tensors.size() == tensors.size());
  for (const auto& [key, t] : tensors) {
    const std::string& name = key;
    INFO(name);
    const Tensor& got = loaded.tensors.at(name);
    CHECK(got.shape() == t.shape());
    CHECK(got.dtype() == t.dtype());
    const Tensor want = t.contiguous();
    CHECK(std::memcmp(got.raw(), want.raw(), size_t(want.bytes())) == 0);
  }
  CHECK(folder.entries() == 1);

  // Data begins at a multiple of 8, every tensor at a multiple of its element's size.
  const std::string raw = read(path);
  uint64_t header = 0;
  std::memcpy(&header, raw.data(), 8);
  CHECK(header % 8 == 0);
}

TEST_CASE("safetensors: a file written by hand") {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[3],"data_offsets":[4,10]},)"
      R"("a":{"dtype":"BOOL","shape":[2,2],"data_offsets":[0,4]},"c":{"dtype":"I16","shape":[1],"data_offsets":[10,12]},)"
      R"("d":{"dtype":"I8","shape":[],"data_offsets":[12,13]}}   )";
  const TemporaryFolder folder;
  const std::string path = folder.file("hand");
  write(path, little_endian(header.size()) + header + std::string("\0\1\2\0", 4) +
                  bytes_of<uint16_t>({0x3c00, 0xc100, 0x0001}) + bytes_of<int16_t>({-300}) + '\xff');
  const TensorFile file = load_safetensors(path);
  CHECK(file.tensors.at("a").to_vector() == Values{0, 1, 1, 0});
  CHECK(file.tensors.at("b").to_vector() == Values{1, -2.5, 0x1p-24});
  CHECK(file.tensors.at("b").dtype() == DType::f32);
  CHECK(file.tensors.at("c").to_vector() == Values{-300});
  CHECK(file.tensors.at("d").item() == -1);
  CHECK(file.tensors.at("d").ndim() == 0);
}

TEST_CASE("half: the 65536 numbers") {
  CHECK(half_to_float(0x7bff) == 65504);
  CHECK(half_to_float(0x0400) == 0x1p-14f);
  CHECK(half_to_float(0x03ff) == 1023 * 0x1p-24f);
  CHECK(std::isinf(half_to_float(0xfc00)));
  CHECK(std::signbit(half_to_float(0x8000)));
  for (uint32_t h = 0; h < 65536; ++h) {
    const int exponent = int(h >> 10 & 31), mantissa = int(h & 1023);
    const float f = half_to_float(uint16_t(h));
    if (exponent == 31) {
      REQUIRE((mantissa ? std::isnan(f) : std::isinf(f)));
      continue;
    }
    const double want = exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
    REQUIRE(double(f) == (h >> 15 ? -want : want));
  }
}

TEST_CASE("safetensors: hostile files are rejected with a reason and their name") {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  CHECK(safetensors_message(container(good, 8)) == "");

  CHECK(safetensors_message("").find("too short") != std::string::npos);
  CHECK(safetensors_message("abc").find("too short") != std::string::npos);
  CHECK(safetensors_message(little_endian(100)).find("past its end") != std::string::npos);
  CHECK(safetensors_message(little_endian(100'000'001) + "{}").find("100 MB") != std::string::npos);
  CHECK(safetensors_message(little_endian(~0ull) + "{}").find("100 MB") != std::string::npos);
  CHECK(safetensors_message(little_endian(0)).find("'{'") != std::string::npos);
  check_rejected("[1]", 0, "'{'");
  check_rejected(" {}", 0, "'{'");

  check_rejected("{", 0, "JSON");
  check_rejected(R"({"a":})", 0, "JSON");
  check_rejected(good + "x", 8, "JSON");
  check_rejected("{\"\xff\xfe\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, "JSON");
  check_rejected(R"({"a":)" + std::string(100000, '[') + std::string(100000, ']') + "}", 0, "nested");
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += R"({"a":)";
  check_rejected(deep, 0, "nested");

  // A cut off file, leftovers, and the known converter's.
  check_rejected(good, 7, "cut off");
  check_rejected(good, 9, "left over");
  check_rejected(good, 12, "converter appends 4 bytes");
  check_rejected("{}", 1, "left over");

  // Sizes that do not fit.
  check_rejected(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,12]}})", 12, "needs 8 bytes");
  check_rejected(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "needs 12 bytes");
  check_rejected(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
                 "overflow");
  check_rejected(R"({"a":{"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})", 0,
                 "overflow");
  check_rejected(R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", 0,
                 "overflow");
  check_rejected(R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,8]}})", 8,
                 "overflow");
  check_rejected(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "begin and end");
  check_rejected(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,16]}})", 8, "begin and end");
  check_rejected(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}})", 8,
                 "dimensions");

  // Numbers that are none of the format's.
  check_rejected(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "whole numbers");
  check_rejected(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8, "whole numbers");
  check_rejected(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8.0]}})", 8, "whole numbers");
  check_rejected(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", 8, "whole numbers");
  check_rejected(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":["0",8]}})", 8, "whole numbers");
  check_rejected(R"({"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8]}})", 8,
                 "whole numbers");

  // Holes and overlaps.
  const auto two = [](const char* first, const char* second) {
    return std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") + first +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  CHECK(safetensors_message(container(two("[4,8]", "[0,4]"), 8)) == "");
  check_rejected(two("[0,4]", "[5,9]"), 9, "hole");
  check_rejected(two("[1,5]", "[5,9]"), 9, "hole");
  check_rejected(two("[0,4]", "[3,7]"), 7, "overlaps");
  check_rejected(two("[0,4]", "[0,4]"), 4, "overlaps");

  // Names and fields.
  check_rejected(
      R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
      1, "twice");
  check_rejected(R"({"a":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}})", 1, "twice");
  check_rejected(R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"more":1}})", 1, "unknown field");
  check_rejected(R"({"a":{"shape":[],"data_offsets":[0,1]}})", 1, "dtype");
  check_rejected(R"({"a":{"dtype":7,"shape":[],"data_offsets":[0,1]}})", 1, "dtype");
  check_rejected(R"({"a":{"dtype":"Q4","shape":[],"data_offsets":[0,1]}})", 1, "known are F64");
  check_rejected(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1, "shape");
  check_rejected(R"({"a":{"dtype":"U8","shape":[]}})", 1, "data_offsets");
  check_rejected(R"({"a":3})", 0, "not a JSON object");
  check_rejected(R"({"__metadata__":3})", 0, "__metadata__");
  check_rejected(R"({"__metadata__":{"a":3}})", 0, "not a string");
}

TEST_CASE("safetensors: every cut of a good file is rejected, every flipped bit is read or rejected") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a");
  save_safetensors(path, {{"a", zeros({2, 2})}, {"b", arange(2)}}, {{"k", "v"}});
  const std::string good = read(path);
  for (size_t n = 0; n < good.size(); ++n) CHECK(safetensors_message(good.substr(0, n)) != "");
  for (size_t bit = 0; bit < 8 * good.size(); bit += 3) {
    std::string bad = good;
    bad[bit / 8] = char(bad[bit / 8] ^ (1 << bit % 8));
    safetensors_message(bad);
  }
}

TEST_CASE("safetensors: what is no file, and what cannot be saved") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(load_safetensors(folder.file("absent")), doctest::Contains("absent"), Error);
  CHECK_THROWS_AS(load_safetensors(folder.file("")), Error);
  REQUIRE(mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(load_safetensors(folder.file("pipe")), doctest::Contains("regular"), Error);
  const std::string path = folder.file("x");
  CHECK_THROWS_AS(save_safetensors(path, {{"a", Tensor()}}), Error);
  CHECK_THROWS_AS(save_safetensors(path, {{"__metadata__", zeros({1})}}), Error);
  CHECK_THROWS_AS(save_safetensors(path, {{"\xff", zeros({1})}}), Error);
  CHECK_THROWS_AS(save_safetensors(folder.file("no/such/folder"), {}), Error);
  CHECK(folder.entries() == 1);  // the pipe: nothing half written remains
  save_safetensors(path, {});
  CHECK(load_safetensors(path).tensors.empty());

  // A failed replacement leaves neither a temporary file nor the old one changed.
  fs::create_directory(folder.file("taken"));
  CHECK_THROWS_WITH_AS(save_safetensors(folder.file("taken"), {}), doctest::Contains("taken"), Error);
  CHECK(folder.entries() == 3);
}

TEST_CASE("input file: what the system cannot open is an error of its own, a missing file is not") {
  const TemporaryFolder folder;
  const std::string loop = folder.file("loop");
  fs::create_symlink(loop, loop);
  CHECK_THROWS_WITH_AS(InputFile{loop}, doctest::Contains("loop': cannot be opened: "), UnreadableFile);
  try {
    InputFile(folder.file("absent"));
    FAIL("opened");
  } catch (const UnreadableFile&) {
    FAIL("not missing");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("absent': cannot be opened: No such file") != std::string::npos);
  }
}

TEST_CASE("mapped file: the bytes of a file, and a reason where there is none to map") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a");
  write(path, std::string("some\0bytes", 10));
  const MappedFile file(path);
  CHECK(file.path() == path);
  CHECK(file.bytes() == std::string_view("some\0bytes", 10));
  write(folder.file("empty"), "");
  CHECK(MappedFile(folder.file("empty")).bytes().empty());

  CHECK_THROWS_WITH_AS(MappedFile(folder.file("absent")), doctest::Contains("absent': cannot be opened"),
                       Error);
  REQUIRE(mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(MappedFile(folder.file("pipe")), doctest::Contains("not a regular file"), Error);
  CHECK_THROWS_WITH_AS(MappedFile(folder.file("")), doctest::Contains("not a regular file"), Error);
}

#include "data/npy.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "engine/ops.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using data::load_npy, data::NpyFile, data::save_npy;

namespace {

using Values = std::vector<double>;

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
}

std::string npy(const std::string& header, const std::string& data, char major = 1) {
  std::string s = std::string("\x93NUMPY") + major + '\0';
  s += char(header.size() & 255);
  s += char(header.size() >> 8);
  if (major > 1) s += std::string(2, '\0');
  return s + header + data;
}

// The message for a file of these bytes, which must name the file; "" if it was read.
std::string message_of(const std::string& bytes) {
  const TemporaryFolder folder;
  write(folder.file("hostile.npy"), bytes);
  try {
    load_npy(folder.file("hostile.npy"));
  } catch (const Error& e) {
    CHECK(std::string(e.what()).find("hostile.npy") != std::string::npos);
    return e.what();
  }
  return "";
}

void check_rejected(const std::string& bytes, const char* why) {
  const std::string message = message_of(bytes);
  CHECK_MESSAGE(message.find(why) != std::string::npos, message);
}

template <class T> std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

TEST_CASE("npy: round trip") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.npy");
  const Tensor x = normal({3, 5}, 0, 1, 1, 1);
  for (const Tensor& t : {x, x.transpose(0, 1), x.to(DType::f64), arange(4), arange(4, DType::i32),
                          arange(4, DType::u8), full({}, 3), zeros({0, 2}), x.reshape({15})}) {
    save_npy(path, t);
    const Tensor got = load_npy(path);
    CHECK(got.shape() == t.shape());
    CHECK(got.dtype() == t.dtype());
    CHECK(got.to_vector() == t.to_vector());
    CHECK((std::filesystem::file_size(path) - size_t(t.bytes())) % 64 == 0);
  }
  save_npy(path, x.to(DType::bf16));
  CHECK(load_npy(path).dtype() == DType::f32);
  CHECK(load_npy(path).to_vector() == x.to(DType::bf16).to_vector());
  CHECK(folder.entries() == 1);
}

TEST_CASE("npy: files as NumPy writes them") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.npy");
  const auto load = [&](const std::string& bytes) {
    write(path, bytes);
    return load_npy(path);
  };
  const Tensor c = load(npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n",
                            bytes_of<int32_t>({1, 2, 3, 4, 5, 6})));
  CHECK(c.to_vector() == Values{1, 2, 3, 4, 5, 6});
  const Tensor f = load(npy("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }\n",
                            bytes_of<int32_t>({1, 4, 2, 5, 3, 6})));
  CHECK(f.shape() == Shape{2, 3});
  CHECK(f.is_contiguous());
  CHECK(f.to_vector() == Values{1, 2, 3, 4, 5, 6});
  CHECK(load(npy("{\"shape\":(3,),\"descr\":\"<f2\",\"fortran_order\":False}",
                 bytes_of<uint16_t>({0x3c00, 0, 0xc100}), 2))
            .to_vector() == Values{1, 0, -2.5});
  CHECK(load(npy("{'descr': '|i1', 'fortran_order': False, 'shape': (1,), }", "\xfe")).to_vector() ==
        Values{-2});
  CHECK(
      load(npy("{'descr': '<i2', 'fortran_order': False, 'shape': (), }", bytes_of<int16_t>({-7}))).item() ==
      -7);
  CHECK(load(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", std::string("\0\1", 2), 3))
            .to_vector() == Values{0, 1});
}

TEST_CASE("npy: some rows, in both orders and where numbers are converted") {
  const TemporaryFolder folder;
  const auto rows = [&](const std::string& header, const std::string& data, int64_t begin, int64_t end) {
    write(folder.file("a.npy"), npy(header, data));
    const Tensor t = NpyFile(folder.file("a.npy")).rows(begin, end);
    CHECK(t.shape() == Shape{end - begin, 2});
    return t.to_vector();
  };
  const std::string c = "{'descr': '<i2', 'fortran_order': False, 'shape': (3, 2)}",
                    f = "{'descr': '<i4', 'fortran_order': True, 'shape': (3, 2)}";
  CHECK(rows(c, bytes_of<int16_t>({1, 2, 3, 4, 5, 6}), 1, 3) == Values{3, 4, 5, 6});
  CHECK(rows(f, bytes_of<int32_t>({1, 3, 5, 2, 4, 6}), 1, 2) == Values{3, 4});
  CHECK(rows(c, bytes_of<int16_t>({1, 2, 3, 4, 5, 6}), 3, 3).empty());
  for (const auto& [begin, end] : {std::pair{-1, 1}, {2, 1}, {0, 4}})
    CHECK_THROWS_WITH_AS(NpyFile(folder.file("a.npy")).rows(begin, end),
                         doctest::Contains("a.npy': has no rows"), Error);
}

TEST_CASE("npy: hostile files are rejected with a reason and their name") {
  const auto with = [](const std::string& descr, const std::string& order, const std::string& shape) {
    return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  };
  const std::string four(4, '\0');
  CHECK(message_of(npy(with("'<f4'", "False", "(1,)"), four)) == "");
  check_rejected("", "too short");
  check_rejected(std::string("\x93NUMPX\1\0    ", 12), "not an npy");
  check_rejected(npy("{}", "", 9), "version");
  check_rejected(npy(with("'<f4'", "False", "(1,)"), four).substr(0, 30), "ends at byte");
  check_rejected(npy(with("'>f4'", "False", "(1,)"), four), "big-endian");
  check_rejected(npy(with("'<c8'", "False", "(1,)"), four), "known are");
  check_rejected(npy(with("'|O'", "False", "(1,)"), four), "known are");
  check_rejected(npy(with("[('a', '<f4')]", "False", "(1,)"), four), "word");
  check_rejected(npy(with("'<f4'", "Maybe", "(1,)"), four), "True nor False");
  check_rejected(npy(with("'<f4'", "False", "(-1,)"), four), "whole number");
  check_rejected(npy(with("'<f4'", "False", "(1.0,)"), four), "lacks a ')'");
  check_rejected(npy(with("'<f4'", "False", "(99999999999999999999,)"), four), "too large");
  check_rejected(npy(with("'<f4'", "False", "(4294967296, 4294967296, 4)"), four), "overflow");
  check_rejected(npy(with("'<f4'", "False", "(0, 4294967296, 4294967296, 4)"), ""), "overflow");
  check_rejected(npy(with("'<f4'", "False", "(1,1,1,1,1,1,1,1,1)"), four), "dimensions");
  check_rejected(npy(with("'<f4'", "False", "(2,)"), four), "asks for 8");
  check_rejected(npy(with("'<f4'", "False", "(1,)"), four + "x"), "holds 5 bytes");
  check_rejected(npy("{'descr': '<f4', 'shape': (1,)}", four), "lacks");
  check_rejected(npy("{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}", four), "twice");
  check_rejected(npy("{'more': '<f4'}", four), "unknown key");
  check_rejected(npy(with("'<f4'", "False", "(1,)") + " exec()", four), "goes on");
  check_rejected(npy("{'descr", four), "word");
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(load_npy(folder.file("absent.npy")), doctest::Contains("absent.npy"), Error);
  CHECK_THROWS_AS(save_npy(folder.file("x.npy"), Tensor()), Error);
}

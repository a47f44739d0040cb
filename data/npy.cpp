#include "data/npy.h"

#include <algorithm>
#include <vector>

#include "engine/files/half.h"

namespace pursuit::data {

namespace {

constexpr size_t max_header = 1 << 20;

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
};

// Parses the header, a Python dictionary with exactly the keys descr, fortran_order and shape, in any order.
class HeaderParser {
 public:
  HeaderParser(const InputFile& file, const std::string& text) : file_(file), text_(text) {}

  Header parse() {
    Header header;
    bool seen[3] = {};
    expect('{');
    while (!accept('}')) {
      const std::string key = word();
      expect(':');
      int which;
      if (key == "descr") {
        which = 0;
        header.descr = word();
      } else if (key == "fortran_order") {
        which = 1;
        header.fortran = boolean();
      } else if (key == "shape") {
        which = 2;
        header.shape = sizes();
      } else {
        file_.reject("the header has an unknown key '" + key + "'");
      }
      if (seen[which]) file_.reject("the header gives '" + key + "' twice");
      seen[which] = true;
      if (accept(',')) continue;
      expect('}');
      break;
    }
    skip();
    if (at_ != text_.size()) file_.reject("the header goes on after its dictionary");
    if (!seen[0] || !seen[1] || !seen[2]) file_.reject("the header lacks descr, fortran_order or shape");
    return header;
  }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c))
      file_.reject(std::string("the header lacks a '") + c + "' at character " + std::to_string(at_));
  }
  std::string word() {
    skip();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    const size_t end = quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : std::string::npos;
    if (end == std::string::npos) file_.reject("the header lacks a word at character " + std::to_string(at_));
    const std::string w = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return w;
  }
  bool boolean() {
    skip();
    for (const char* name : {"True", "False"})
      if (text_.compare(at_, std::string(name).size(), name) == 0) {
        at_ += std::string(name).size();
        return name[0] == 'T';
      }
    file_.reject("fortran_order is neither True nor False");
  }
  std::vector<int64_t> sizes() {
    std::vector<int64_t> all;
    expect('(');
    while (!accept(')')) {
      skip();
      int64_t value = 0;
      const size_t begin = at_;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
        if (__builtin_mul_overflow(value, int64_t(10), &value) ||
            __builtin_add_overflow(value, int64_t(text_[at_] - '0'), &value))
          file_.reject("a size in the header is too large");
      if (at_ == begin) file_.reject("the shape holds something that is not a whole number from 0");
      all.push_back(value);
      if (accept(',')) continue;
      expect(')');
      break;
    }
    return all;
  }

  const InputFile& file_;
  const std::string& text_;
  size_t at_ = 0;
};

template <class From, class F> void convert(const std::vector<char>& raw, const F& store) {
  for (size_t i = 0; i < raw.size() / sizeof(From); ++i) {
    From v;
    memcpy(&v, raw.data() + i * sizeof(From), sizeof(From));
    store(i, v);
  }
}

const char* descr_of(DType d) {
  switch (d) {
    case DType::f64:
      return "<f8";
    case DType::f32:
    case DType::bf16:
      return "<f4";
    case DType::i64:
      return "<i8";
    case DType::i32:
      return "<i4";
    case DType::u8:
      return "|u1";
    case DType::i8:
      return "|i1";
  }
  return "";
}

struct Element {
  size_t size;
  DType dtype;
};

Element element_of(const InputFile& file, const std::string& descr) {
  const std::string type = descr.size() == 3 ? descr.substr(1) : "";
  const char order = descr.empty() ? ' ' : descr[0];
  if (order == '>') file.reject("holds big-endian numbers (" + descr + "); save it as little endian");
  if (order == '<' || order == '|') {
    if (type == "f8") return {8, DType::f64};
    if (type == "f4") return {4, DType::f32};
    if (type == "f2") return {2, DType::f32};
    if (type == "i8") return {8, DType::i64};
    if (type == "i4") return {4, DType::i32};
    if (type == "i2") return {2, DType::i32};
    if (type == "i1") return {1, DType::i32};
    if (type == "u1" || type == "b1") return {1, DType::u8};
  }
  file.reject("holds elements '" + descr + "'; known are <f8, <f4, <f2, <i8, <i4, <i2, |i1, |u1, |b1");
}

}  // namespace

NpyFile::NpyFile(const std::string& path) : file_(path) {
  unsigned char head[12] = {};
  if (file_.size() < 10) file_.reject("is too short for an npy file");
  file_.read(0, head, 10);
  if (memcmp(head, "\x93NUMPY", 6) != 0) file_.reject("is not an npy file");
  if (head[6] < 1 || head[6] > 3)
    file_.reject("is of npy version " + std::to_string(head[6]) + ", known are 1 to 3");
  data_at_ = 10;
  size_t header_bytes = head[8] | size_t(head[9]) << 8;
  if (head[6] > 1) {
    data_at_ = 12;
    file_.read(10, head + 10, 2);
    header_bytes |= size_t(head[10]) << 16 | size_t(head[11]) << 24;
  }
  if (header_bytes > max_header)
    file_.reject("claims a header of " + std::to_string(header_bytes) + " bytes");
  std::string text(header_bytes, ' ');
  file_.read(data_at_, text.data(), header_bytes);
  data_at_ += header_bytes;

  const Header header = HeaderParser(file_, text).parse();
  const Element element = element_of(file_, header.descr);
  if (header.shape.size() > size_t(Shape::max_dims))
    file_.reject("has " + std::to_string(header.shape.size()) + " dimensions, at most 8 are possible");
  size_t bytes = element.size;
  for (int64_t s : header.shape)
    if (__builtin_mul_overflow(bytes, size_t(std::max<int64_t>(s, 1)), &bytes))
      file_.reject("its sizes overflow");
  if (std::count(header.shape.begin(), header.shape.end(), 0)) bytes = 0;
  if (file_.size() - data_at_ != bytes)
    file_.reject("holds " + std::to_string(file_.size() - data_at_) + " bytes of data, its header asks for " +
                 std::to_string(bytes));

  shape_ = Shape(header.shape);
  dtype_ = element.dtype;
  element_ = element.size;
  fortran_ = header.fortran;
}

Tensor NpyFile::read(const Shape& shape, size_t at) const {
  Tensor t = empty(shape, dtype_);
  const size_t bytes = size_t(t.numel()) * element_;
  if (int64_t(element_) == size_of(dtype_)) {
    file_.read(at, t.raw(), bytes);
    return t;
  }
  std::vector<char> raw(bytes);
  file_.read(at, raw.data(), bytes);
  if (dtype_ == DType::f32)
    convert<uint16_t>(raw, [p = t.data<float>()](size_t i, uint16_t v) { p[i] = half_to_float(v); });
  else if (element_ == 2)
    convert<int16_t>(raw, [p = t.data<int32_t>()](size_t i, int16_t v) { p[i] = v; });
  else
    convert<int8_t>(raw, [p = t.data<int32_t>()](size_t i, int8_t v) { p[i] = v; });
  return t;
}

Tensor NpyFile::load() const {
  if (!fortran_) return read(shape_, data_at_);
  Shape stored;
  std::vector<int> reversed;
  for (int d = shape_.size() - 1; d >= 0; --d) {
    stored.push_back(shape_[d]);
    reversed.push_back(d);
  }
  return read(stored, data_at_).permute(reversed).contiguous();
}

Tensor NpyFile::rows(int64_t begin, int64_t end) const {
  if (shape_.empty() || begin < 0 || begin > end || end > shape_[0])
    file_.reject("has no rows " + std::to_string(begin) + " to " + std::to_string(end) + ": it holds " +
                 shape_.str());
  if (fortran_) return load().slice(0, begin, end).contiguous();
  Shape before = shape_, wanted = shape_;
  before[0] = begin;
  wanted[0] = end - begin;
  return read(wanted, data_at_ + size_t(before.numel()) * element_);
}

Tensor load_npy(const std::string& path) { return NpyFile(path).load(); }

void save_npy(const std::string& path, const Tensor& t) {
  if (!t.defined()) fail("file", "'" + path + "': the tensor is undefined");
  Tensor dense = t.detach().to(cpu);
  if (dense.dtype() == DType::bf16) dense = dense.to(DType::f32);
  dense = dense.contiguous();
  std::string shape;
  for (int64_t s : dense.shape()) shape += std::to_string(s) + ", ";
  if (dense.ndim() > 1) shape.erase(shape.size() - 2);
  std::string text = std::string("{'descr': '") + descr_of(dense.dtype()) +
                     "', 'fortran_order': False, 'shape': (" + shape + "), }";
  text.append(63 - (10 + text.size()) % 64, ' ');
  text += '\n';
  const unsigned char length[2] = {static_cast<unsigned char>(text.size() & 255),
                                   static_cast<unsigned char>(text.size() >> 8)};
  AtomicFile file(path);
  file.write("\x93NUMPY\x01\x00", 8);
  file.write(length, 2);
  file.write(text.data(), text.size());
  file.write(dense.raw(), size_t(dense.bytes()));
  file.commit();
}

}  // namespace pursuit::data

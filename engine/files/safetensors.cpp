#include "engine/files/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "engine/base/text.h"
#include "engine/files/atomic_file.h"
#include "engine/files/half.h"

namespace pursuit {

namespace {

using Json = nlohmann::json;

constexpr uint64_t max_header = 100'000'000;

// A dtype of the format: its bytes per element, and the dtype it loads as.
struct Stored {
  const char* name;
  uint64_t size;
  DType dtype;
};
constexpr Stored stored_types[] = {
    {"F64", 8, DType::f64}, {"F32", 4, DType::f32}, {"BF16", 2, DType::bf16}, {"F16", 2, DType::f32},
    {"I64", 8, DType::i64}, {"I32", 4, DType::i32}, {"I16", 2, DType::i32},   {"U16", 2, DType::i32},
    {"I8", 1, DType::i8},   {"U8", 1, DType::u8},   {"BOOL", 1, DType::u8},
};

struct Entry {
  std::string name;
  const Stored* type;
  Shape shape;
  uint64_t begin, end;
};

Json parse_header(const InputFile& file, const std::string& text) {
  // Tracks keys by nesting level: a parsed object keeps only the last of two equal ones.
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    using Event = Json::parse_event_t;
    if (depth > 3) file.reject("the header is nested deeper than the format allows");
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(value.get<std::string>()).second)
      file.reject("the header gives '" + value.get<std::string>() + "' twice");
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::exception& e) {
    file.reject(std::string("the header is not valid JSON: ") + e.what());
  }
}

std::vector<uint64_t> numbers(const InputFile& file, const std::string& name, const Json& tensor,
                              const char* key) {
  const auto found = tensor.find(key);
  if (found == tensor.end() || !found->is_array())
    file.reject("tensor '" + name + "' has no list '" + key + "'");
  std::vector<uint64_t> values;
  for (const Json& v : *found) {
    if (!v.is_number_unsigned())
      file.reject("'" + std::string(key) + "' of tensor '" + name + "' holds " + v.dump() +
                  ", need whole numbers from 0");
    values.push_back(v.get<uint64_t>());
  }
  return values;
}

Entry read_entry(const InputFile& file, const std::string& name, const Json& tensor) {
  if (!tensor.is_object()) file.reject("tensor '" + name + "' is not a JSON object");
  for (const auto& [key, value] : tensor.items())
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      file.reject("tensor '" + name + "' has an unknown field '" + key + "'");
  const auto dtype = tensor.find("dtype");
  if (dtype == tensor.end() || !dtype->is_string()) file.reject("tensor '" + name + "' has no dtype");
  const auto type = std::find_if(std::begin(stored_types), std::end(stored_types),
                                 [&](const Stored& s) { return dtype->get<std::string>() == s.name; });
  if (type == std::end(stored_types)) {
    std::string known;
    for (const Stored& s : stored_types) known += std::string(known.empty() ? "" : ", ") + s.name;
    file.reject("tensor '" + name + "' is of dtype '" + dtype->get<std::string>() + "'; known are " + known);
  }

  Entry entry{name, &*type, {}, 0, 0};
  const std::vector<uint64_t> shape = numbers(file, name, tensor, "shape");
  if (shape.size() > size_t(Shape::max_dims))
    file.reject("tensor '" + name + "' has " + std::to_string(shape.size()) +
                " dimensions, at most 8 are possible");
  uint64_t bytes = type->size;
  bool fits = true;
  for (uint64_t s : shape) {
    fits = fits && s <= uint64_t(INT64_MAX);
    entry.shape.push_back(int64_t(s));
  }
  // The product of the sizes must fit even if one of them is 0.
  for (uint64_t s : shape) fits = fits && !__builtin_mul_overflow(bytes, std::max<uint64_t>(s, 1), &bytes);
  if (!fits || bytes > uint64_t(INT64_MAX)) file.reject("the sizes of tensor '" + name + "' overflow");
  if (std::count(shape.begin(), shape.end(), 0u)) bytes = 0;

  const std::vector<uint64_t> offsets = numbers(file, name, tensor, "data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    file.reject("tensor '" + name + "': data_offsets need to be two numbers, begin and end");
  entry.begin = offsets[0];
  entry.end = offsets[1];
  if (entry.end - entry.begin != bytes)
    file.reject("tensor '" + name + "' " + entry.shape.str() + " of " + type->name + " needs " +
                std::to_string(bytes) + " bytes, its data_offsets span " +
                std::to_string(entry.end - entry.begin));
  return entry;
}

void check_cover(const InputFile& file, std::vector<Entry>& entries, uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  uint64_t at = 0;
  for (const Entry& e : entries) {
    if (e.begin < at) file.reject("tensor '" + e.name + "' overlaps the one before it");
    if (e.begin > at)
      file.reject("a hole of " + std::to_string(e.begin - at) + " bytes before tensor '" + e.name + "'");
    if (e.end > data_bytes)
      file.reject("tensor '" + e.name + "' ends at byte " + std::to_string(e.end) + " of " +
                  std::to_string(data_bytes) + " bytes of data; the file is cut off");
    at = e.end;
  }
  if (at == data_bytes) return;
  const uint64_t left = data_bytes - at;
  file.reject(std::to_string(left) + " bytes are left over after the last tensor" +
              (left == 4 ? "; a known converter appends 4 bytes: cut them off, or save the file anew" : ""));
}

template <class From, class To, class F>
void convert(const std::vector<char>& raw, const Tensor& t, const F& f) {
  To* to = t.data<To>();
  for (int64_t i = 0; i < t.numel(); ++i) {
    From v;
    memcpy(&v, raw.data() + size_t(i) * sizeof(From), sizeof(From));
    to[i] = f(v);
  }
}

Tensor read_tensor(const InputFile& file, const Entry& e, uint64_t data_at) {
  Tensor t = empty(e.shape, e.type->dtype);
  const std::string type = e.type->name;
  const size_t bytes = size_t(e.end - e.begin), at = size_t(data_at + e.begin);
  const bool converts = type == "F16" || type == "I16" || type == "U16" || type == "BOOL";
  if (!converts) {
    file.read(at, t.raw(), bytes);
    return t;
  }
  std::vector<char> raw(bytes);
  file.read(at, raw.data(), bytes);
  if (type == "F16") convert<uint16_t, float>(raw, t, half_to_float);
  if (type == "I16") convert<int16_t, int32_t>(raw, t, [](int16_t v) { return int32_t(v); });
  if (type == "U16") convert<uint16_t, int32_t>(raw, t, [](uint16_t v) { return int32_t(v); });
  if (type == "BOOL") convert<uint8_t, uint8_t>(raw, t, [](uint8_t v) { return uint8_t(v != 0); });
  return t;
}

const char* stored_name(DType d) {
  for (const Stored& s : stored_types)
    if (s.dtype == d && int64_t(s.size) == size_of(d)) return s.name;
  return "";
}

}  // namespace

TensorFile load_safetensors(const std::string& path) {
  const InputFile file(path);
  uint64_t header_bytes = 0;
  if (file.size() < 8)
    file.reject("is too short for a safetensors file: " + std::to_string(file.size()) + " bytes");
  file.read(0, &header_bytes, 8);
  if (header_bytes > max_header) {
    char begins[8];
    file.read(0, begins, sizeof begins);
    file.reject("is no safetensors file: it begins with '" + printable({begins, sizeof begins}) +
                "' instead of its header's length, at most 100 MB");
  }
  if (header_bytes > file.size() - 8)
    file.reject("claims a header of " + std::to_string(header_bytes) + " bytes, which is past its end");
  std::string text(size_t(header_bytes), ' ');
  file.read(8, text.data(), text.size());
  if (text.empty() || text[0] != '{') file.reject("the header does not begin with '{'");
  const Json header = parse_header(file, text);

  TensorFile result;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name != "__metadata__") {
      entries.push_back(read_entry(file, name, value));
      continue;
    }
    if (!value.is_object()) file.reject("__metadata__ is not a JSON object");
    for (const auto& [key, word] : value.items()) {
      if (!word.is_string()) file.reject("__metadata__ '" + key + "' is not a string");
      result.metadata[key] = word.get<std::string>();
    }
  }
  const uint64_t data_at = 8 + header_bytes;
  check_cover(file, entries, file.size() - data_at);
  for (const Entry& e : entries) result.tensors[e.name] = read_tensor(file, e, data_at);
  return result;
}

void save_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata, const std::string& old_name) {
  // Wide elements first, so that every tensor is aligned to its element size.
  std::vector<std::pair<std::string, Tensor>> order;
  for (const auto& [name, t] : tensors) {
    if (!t.defined()) fail("file", "'" + path + "': tensor '" + name + "' is undefined");
    if (name == "__metadata__") fail("file", "'" + path + "': no tensor may be called __metadata__");
    order.emplace_back(name, t.detach());
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return size_of(a.second.dtype()) > size_of(b.second.dtype());
  });

  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t at = 0;
  for (const auto& [name, t] : order) {
    header[name] = {{"dtype", stored_name(t.dtype())},
                    {"shape", std::vector<int64_t>(t.shape().begin(), t.shape().end())},
                    {"data_offsets", {at, at + t.bytes()}}};
    at += t.bytes();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception& e) {
    fail("file", "'" + path + "': a name or a word is not valid UTF-8: " + e.what());
  }
  text.append((8 - text.size() % 8) % 8, ' ');

  AtomicFile file(path);
  const uint64_t header_bytes = text.size();
  file.write(&header_bytes, 8);
  file.write(text.data(), text.size());
  for (const auto& [name, t] : order) {
    const Tensor dense = t.to(cpu).contiguous();
    file.write(dense.raw(), size_t(dense.bytes()));
  }
  file.commit(old_name);
}

}  // namespace pursuit

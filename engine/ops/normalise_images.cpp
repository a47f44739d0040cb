#include "cuda/normalise_images.cuh"

#include <algorithm>
#include <array>

#include "engine/base/random.h"
#include "engine/cpu/parallel.h"
#include "engine/operator/counter.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

namespace {

constexpr int most_channels = 4;

// The rows of the normalised images, each as a function of the column, and where they are in the result.
struct ImageRows {
  const uint8_t* images;
  const int32_t* erased;  // nullable, like mix and counter
  const float* mix;
  uint64_t seed, stream;
  const int64_t* counter;
  float zero[most_channels], scale[most_channels];  // (value - zero) scale
  int64_t batch, channels, height, width;
  int64_t patch;  // 0: the result is in row order

  // A row in pieces of `length` numbers, the first at `first`, the others `stride` apart.
  struct Places {
    int64_t first, length, stride;
  };
  HD Places places(int64_t number) const {
    if (patch == 0) return {number * width, width, 0};
    const int64_t y = number % height, c = number / height % channels, picture = number / height / channels;
    const int64_t area = patch * patch, across = width / patch, row = picture * (height / patch) + y / patch;
    return {(row * across * channels + c) * area + y % patch * patch, patch, channels * area};
  }

  // For an image that is not mixed.
  struct Row {
    const uint8_t* pixels;
    float zero, scale;
    int64_t begin, end;  // columns with noise
    uint64_t seed, stream, first;

    HD float operator()(int64_t x) const {
      if (x >= begin && x < end) return philox_normal(seed, stream, first + uint64_t(x));
      return (float(pixels[x]) - zero) * scale;
    }
  };
  struct MixedRow {
    Row own, partner;
    float own_weight, begin, end;  // columns to mix

    HD float operator()(int64_t x) const {
      const float v = own(x);
      return float(x) >= begin && float(x) < end ? own_weight * v + (1 - own_weight) * partner(x) : v;
    }
  };

  HD Row row(int64_t picture, int64_t c, int64_t y) const {
    const int64_t first = ((picture * channels + c) * height + y) * width;
    const Draws d = draws_of(stream, batch * channels * height * width, counter);
    Row r{images + first, zero[c], scale[c], 0, 0, seed, d.stream, d.first + uint64_t(first)};
    const int32_t* box = erased ? erased + 4 * picture : nullptr;
    if (box && y >= box[1] && y < int64_t(box[1]) + box[3]) {
      r.begin = box[0];
      r.end = int64_t(box[0]) + box[2];
    }
    return r;
  }
  HD MixedRow operator()(int64_t number) const {
    const int64_t y = number % height, c = number / height % channels, picture = number / height / channels;
    const Row own = row(picture, c, y);
    const float* m = mix ? mix + 6 * picture : nullptr;
    if (m && float(y) >= m[2] && float(y) < m[2] + m[4] && m[5] >= 0 && m[5] < float(batch))
      return {own, row(int64_t(m[5]), c, y), m[0], m[1], m[1] + m[3]};
    return {own, own, 1, 0, 0};
  }
};

struct NormaliseImages {
  static constexpr const char* name = "normalise_images";
  std::vector<double> mean = {}, std = {};
  DType to = DType::f32;
  uint64_t seed = 0, stream = 0;
  Tensor counter = {};
  int64_t patch = 0;

  template <class T> static void kernel(Cpu, const ImageRows& rows, T* y) {
    const int64_t count = rows.batch * rows.channels * rows.height, width = rows.width;
    parallel_for(count, 1 + 16384 / (width + 1), [&](int64_t b, int64_t e) {
      for (int64_t r = b; r < e; ++r) {
        const ImageRows::MixedRow row = rows(r);
        const auto [first, length, stride] = rows.places(r);
        T* piece = y + first;
        for (int64_t begin = 0; begin < width; begin += length, piece += stride)
          for (int64_t x = 0; x < length; ++x) piece[x] = downcast<T>(row(begin + x));
      }
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda, const ImageRows& rows, T* y) {
    const int64_t count = rows.batch * rows.channels * rows.height;
    constexpr int warps = 8;
    cuda::launch<cuda::rows_kernel<ImageRows, T>>({cuda::blocks_for(count, warps), warps * cuda::warp_size},
                                                  rows, count, rows.width, y);
  }
#endif

  Tensor forward(const Tensor& in, const Tensor& erased, const Tensor& mix) {
    const Tensor images = in.to(DType::u8).contiguous();
    const Tensor boxes = erased.defined() ? erased.to(DType::i32).contiguous() : Tensor();
    const Tensor how = mix.defined() ? mix.to(DType::f32).contiguous() : Tensor();
    const Tensor y = empty(result_shape(images), to, images.device());
    if (y.numel() == 0) return y;
    ImageRows rows{images.data<uint8_t>(),
                   boxes.defined() ? boxes.data<int32_t>() : nullptr,
                   how.defined() ? how.data<float>() : nullptr,
                   seed,
                   stream,
                   counter.defined() ? counter.data<int64_t>() : nullptr,
                   {},
                   {},
                   images.size(0),
                   images.size(1),
                   images.size(2),
                   images.size(3),
                   patch};
    for (size_t c = 0; c < mean.size(); ++c) {
      rows.zero[c] = float(255 * mean[c]);
      rows.scale[c] = float(1 / (255 * std[c]));
    }
    dispatch(y, name,
             [&]<class Dev, class T>(Dev dev, Type<T>) { launch<NormaliseImages>(dev, rows, y.data<T>()); });
    return y;
  }
  Shape result_shape(const Tensor& in) const {
    if (patch == 0) return in.shape();
    return {in.size(0), in.size(2) / patch * (in.size(3) / patch), in.size(1) * patch * patch};
  }
  Grads backward(const Tensor&, Needs) { return {Tensor(), Tensor(), Tensor()}; }

  // Pixel by pixel.
  Tensor reference(const Tensor& in, const Tensor& erased, const Tensor& mix) const {
    const std::vector<double> v = in.to_vector();
    const std::vector<double> boxes = erased.defined() ? erased.to_vector() : std::vector<double>(),
                              how = mix.defined() ? mix.to_vector() : std::vector<double>();
    const int64_t batch = in.size(0), channels = in.size(1), height = in.size(2), width = in.size(3);
    const auto inside = [](const double* box, int64_t y, int64_t x) {
      return double(x) >= box[0] && double(x) < box[0] + box[2] && double(y) >= box[1] &&
             double(y) < box[1] + box[3];
    };
    const auto pixel = [&](int64_t b, int64_t c, int64_t y, int64_t x) -> double {
      const size_t i = size_t(((b * channels + c) * height + y) * width + x);
      if (!boxes.empty() && inside(&boxes[size_t(4 * b)], y, x)) return philox_normal(seed, stream, i);
      return (v[i] / 255 - mean[size_t(c)]) / std[size_t(c)];
    };
    std::vector<double> out;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t y = 0; y < height; ++y)
          for (int64_t x = 0; x < width; ++x) {
            const double own = pixel(b, c, y, x);
            const double* m = how.empty() ? nullptr : &how[size_t(6 * b)];
            const bool mixed = m && inside(m + 1, y, x) && m[5] >= 0 && m[5] < double(batch);
            out.push_back(mixed ? m[0] * own + (1 - m[0]) * pixel(int64_t(m[5]), c, y, x) : own);
          }
    Tensor y = from_vector(out, in.shape());
    if (patch > 0)
      y = y.reshape({batch, channels, height / patch, patch, width / patch, patch})
              .permute({0, 2, 4, 1, 3, 5})
              .reshape(result_shape(in));
    return y.to(to).to(in.device());
  }
  static std::vector<Sample<NormaliseImages>> samples() {
    const std::vector<double> mean = {0.485, 0.456, 0.406}, std = {0.229, 0.224, 0.225};
    const auto mix = [](int64_t batch) { return constant({{batch, 6}, 0, 4}); };
    return {
        {{mean, std}, {labels({2, 3, 4, 5}, 256), left_out(), left_out()}},
        {{mean, std, DType::f32, 7, 1}, {labels({3, 3, 6, 35}, 256), labels({3, 4}, 5), left_out()}},
        {{mean, std, DType::f32, 7, 2}, {labels({5, 3, 4, 6}, 256), labels({5, 4}, 4), mix(5)}},
        {{{0.5}, {0.25}, DType::bf16}, {labels({4, 1, 7, 9}, 256), left_out(), mix(4)}},
        {{mean, std, DType::f32, 7, 2, {}, 2}, {labels({5, 3, 4, 6}, 256), labels({5, 4}, 4), mix(5)}},
        {{mean, std, DType::bf16, 7, 1, {}, 5}, {labels({2, 3, 10, 40}, 256), labels({2, 4}, 9), left_out()}},
        {{mean, std}, {labels({0, 3, 4, 5}, 256), left_out(), left_out()}}};
  }
};
PURSUIT_OPERATOR(NormaliseImages)

}  // namespace

Tensor normalise_images(const Tensor& images, const std::vector<double>& mean, const std::vector<double>& std,
                        DType dtype, const Tensor& erased, const Tensor& mix, uint64_t seed, uint64_t stream,
                        const Tensor& counter, int64_t patch) {
  constexpr const char* where = NormaliseImages::name;
  if (images.ndim() != 4 || images.dtype() != DType::u8 || images.size(1) > most_channels)
    fail(where, "got " + images.str() + ", need u8 [batch, 1 to " + std::to_string(most_channels) +
                    " channels, height, width]");
  if (int64_t(mean.size()) != images.size(1) || mean.size() != std.size() ||
      !std::all_of(std.begin(), std.end(), [](double s) { return s > 0; }))
    fail(where, "got " + std::to_string(mean.size()) + " means and " + std::to_string(std.size()) +
                    " standard deviations, need one of each for a channel, the latter above 0");
  if (patch < 0 || (patch > 0 && (images.size(2) % patch || images.size(3) % patch)))
    fail(where, "got patch " + std::to_string(patch) + " for " + images.str() +
                    ", need one that tiles their height and width, or 0");
  if (!is_floating(dtype)) fail(where, std::string("cannot give ") + name_of(dtype));
  const auto check = [&](const char* what, const Tensor& t, const Shape& shape, DType type) {
    if (t.defined() && (t.shape() != shape || t.dtype() != type || t.device() != images.device()))
      fail(where, "got " + std::string(what) + " " + t.str() + ", need " + name_of(type) + shape.str() +
                      " beside " + images.str());
  };
  check("erased", erased, {images.size(0), 4}, DType::i32);
  check("mix", mix, {images.size(0), 6}, DType::f32);
  require_counter(where, counter, images);
  return apply(NormaliseImages{mean, std, dtype, seed, stream, counter, patch}, images, erased, mix);
}

}  // namespace pursuit

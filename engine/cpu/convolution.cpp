#include "engine/cpu/convolution.h"

#include <algorithm>
#include <vector>

#include "engine/cpu/gemm.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/rows.h"
#include "engine/cpu/scratch.h"
#include "engine/cpu/work.h"

namespace pursuit {

namespace {

// Scratch slots: the calling thread's, which all threads read, and those of each thread's own work.
constexpr int pictures_slot = 5, weights_slot = 6, work_slot = 0, columns_slot = 1;

int64_t floor_of(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// Positions along one dimension, the taps of each position, and their locations in a line of the
// packed source: tap t of position p is at offset[t] + p step. Results go to first + p to_step of the
// target.
struct Line {
  int64_t positions, step;
  std::vector<int64_t> tap, offset;
  int64_t first, to_step;
};

// Layout of a packed source line: `length` elements from `first` on (negative: padded with
// zeros), grouped by their remainder modulo `phases`, so that the taps of adjacent positions are
// adjacent.
struct Layout1 {
  int64_t first, length, phases;
  int64_t phase() const { return (length + phases - 1) / phases; }
  int64_t size() const { return phase() * phases; }
};

// One direction of a convolution: a source line has `size` elements, with one Line per group of positions.
// The gradient of x has one for each remainder modulo the stride, because only some of the taps reach it.
struct Direction {
  int64_t size;
  Layout1 layout;
  std::vector<Line> lines;
};

// The lines of x, unsplit if `split` is false.
Direction forward_direction(const Windows& w, bool split) {
  const int64_t count = w.count(), phases = split ? w.stride : 1;
  Direction d{w.size, {-w.padding, (count - 1) * w.stride + w.reach(), phases}, {{count, 1, {}, {}, 0, 1}}};
  Line& line = d.lines[0];
  line.step = split ? 1 : w.stride;
  for (int64_t t = 0; t < w.kernel; ++t) {
    const int64_t at = t * w.dilation;
    line.tap.push_back(t);
    line.offset.push_back(at % phases * d.layout.phase() + at / phases);
  }
  return d;
}

// The lines of gy. Element i of x satisfies i + padding = u stride + r; tap t reaches it from window u - (t
// dilation - r) / stride, if that is an integer.
Direction backward_direction(const Windows& w) {
  const int64_t lowest = floor_of(w.padding, w.stride) - (w.reach() - 1) / w.stride,
                highest = (w.size - 1 + w.padding) / w.stride;
  Direction d{w.count(), {lowest, highest - lowest + 1, 1}, {}};
  for (int64_t r = 0; r < w.stride; ++r) {
    const int64_t u = floor_of(w.padding - r + w.stride - 1, w.stride),
                  last = floor_of(w.size - 1 + w.padding - r, w.stride);
    if (last < u) continue;
    Line line{last - u + 1, 1, {}, {}, u * w.stride + r - w.padding, w.stride};
    for (int64_t t = w.kernel - 1; t >= 0; --t)  // in this order their locations ascend
      if (t * w.dilation % w.stride == r) {
        line.tap.push_back(t);
        line.offset.push_back(u - t * w.dilation / w.stride - lowest);
      }
    d.lines.push_back(std::move(line));
  }
  return d;
}

// The images of a source [batch, channels, h.size, w.size].
struct Source {
  const float* p;
  int64_t channels;
  Direction h, w;

  int64_t picture() const { return h.size * w.size; }
  // Whether windows can be read without packing.
  bool in_place() const {
    const auto within = [](const Direction& d) {
      return d.layout.first == 0 && d.layout.phases == 1 && d.layout.length <= d.size;
    };
    return within(h) && within(w);
  }
};

// Packed images, as the kernels read them.
struct Laid {
  const float* p;
  int64_t channels, pitch, plane;
  int64_t picture() const { return channels * plane; }
};

// Packs the source's pixels into a plane of zeros.
void lay_out(const Source& s, const float* from, float* to) {
  const Layout1 &h = s.h.layout, &w = s.w.layout;
  const int64_t phase = w.phase(), pitch = w.size();
  const int64_t top = std::max<int64_t>(0, -h.first), bottom = std::min(h.length, s.h.size - h.first),
                begin = std::max<int64_t>(0, -w.first), end = std::min(w.length, s.w.size - w.first);
  if (begin >= end) return;
  for (int64_t i = top; i < bottom; ++i) {
    const float* line = from + (h.first + i) * s.w.size + w.first;
    float* row = to + i * pitch;
    if (w.phases > 1)
      for (int64_t j = begin; j < end; ++j) row[j % w.phases * phase + j / w.phases] = line[j];
    else if (end - begin < 16)  // too short for a call
      for (int64_t j = begin; j < end; ++j) row[j] = line[j];
    else
      std::copy_n(line + begin, end - begin, row + begin);
  }
}

// The number of pictures copied at a time: 16 MB, so that they are still in the last-level cache when they
// are read. It must depend on sizes only, since sums over pictures are split there.
int64_t pictures_at_once(const Source& s, int64_t batch) {
  if (s.in_place()) return batch;
  const int64_t size = s.channels * s.h.layout.length * s.w.layout.size();
  return std::max<int64_t>(1, (4 << 20) / std::max<int64_t>(1, size));
}

// Pictures [n0, n0 + n) in the calling thread's scratch memory, or where they lie.
Laid laid_out(const Source& s, int64_t n0, int64_t n) {
  const float* first = s.p + n0 * s.channels * s.picture();
  if (s.in_place()) return {first, s.channels, s.w.size, s.picture()};
  const int64_t pitch = s.w.layout.size(), plane = s.h.layout.length * pitch;
  float* to = scratch<float>(pictures_slot, n * s.channels * plane);
  parallel_for(n * s.channels, std::max<int64_t>(1, 8192 / (plane + 1)), [&](int64_t begin, int64_t end) {
    std::fill_n(to + begin * plane, (end - begin) * plane, 0.0f);
    for (int64_t i = begin; i < end; ++i) lay_out(s, first + i * s.picture(), to + i * plane);
  });
  return {to, s.channels, pitch, plane};
}

// The positions of pictures, row by row, where an unfolded picture has its columns.
struct Grid {
  const Line &h, &w;
  int64_t size() const { return h.positions * w.positions; }
};

// The runs of columns [begin, end) in the copied pictures.
void runs_of(const Grid& g, const Laid& x, int64_t begin, int64_t end, std::vector<Run>& runs) {
  runs.clear();
  for (int64_t q = begin; q < end;) {
    const int64_t n = q / g.size(), row = q % g.size() / g.w.positions, col = q % g.w.positions;
    const int64_t offset = n * x.picture() + row * g.h.step * x.pitch + col;
    if (runs.empty() || runs.back().offset + (q - begin) - runs.back().column != offset)
      runs.push_back({q - begin, offset});
    q = std::min(end, q + g.w.positions - col);
  }
  runs.push_back({end - begin, 0});
}

// The offset that each row (channel, tap down, tap across) of a group's unfolded picture adds to the runs.
std::vector<int64_t> shifts_of(const Grid& g, const Laid& x, int64_t group, int64_t channels) {
  std::vector<int64_t> shift;
  for (int64_t i = group * channels; i < (group + 1) * channels; ++i)
    for (const int64_t down : g.h.offset)
      for (const int64_t across : g.w.offset) shift.push_back(i * x.plane + down * x.pitch + across);
  return shift;
}

// The output of a convolution: [.., channels, height, width].
struct Target {
  float* p;
  int64_t channels, height, width;
};

// Columns from `begin` on of c [rows, cols], plus a bias a row (nullable), to channels from `channel` on.
void store_columns(const Grid& g, const float* c, int64_t rows, int64_t begin, int64_t cols,
                   const float* bias, const Target& to, int64_t channel) {
  for (int64_t q = begin; q < begin + cols;) {
    const int64_t n = q / g.size(), row = q % g.size() / g.w.positions, col = q % g.w.positions;
    const bool dense = g.w.to_step == 1 && g.h.to_step == 1 && g.w.positions == to.width;
    const int64_t run = std::min(begin + cols - q, dense ? g.size() - q % g.size() : g.w.positions - col);
    float* first = to.p +
                   ((n * to.channels + channel) * to.height + g.h.first + row * g.h.to_step) * to.width +
                   g.w.first + col * g.w.to_step;
    for (int64_t o = 0; o < rows; ++o) {
      const float* from = c + o * cols + q - begin;
      float* y = first + o * to.height * to.width;
      const float b = bias ? bias[o] : 0;
      if (g.w.to_step == 1)
        pursuit::rows<float>().normalise(from, y, run, 0, 1, b);  // (from - 0) 1 + b
      else
        for (int64_t j = 0; j < run; ++j) y[j * g.w.to_step] = from[j] + b;
    }
    q += run;
  }
}

// Columns per product, so that the result of all rows stays in the L2 cache.
int64_t columns_at_once(int64_t rows) { return std::clamp<int64_t>((128 << 10) / rows / 48, 2, 16) * 48; }

// y = a (unfolded pictures) + bias; a [groups, rows, channels of a group x taps of the grid].
void multiply(const Grid& g, const Laid& x, int64_t pictures, int64_t groups, const float* a, int64_t rows,
              const float* bias, const Target& to) {
  if (rows == 0) return;
  constexpr int64_t unit = 16;
  const int64_t channels = x.channels / groups, k = channels * int64_t(g.h.tap.size() * g.w.tap.size());
  const int64_t cols = pictures * g.size(), units = (cols + unit - 1) / unit;
  // A range reads all of a: it is to be worth that.
  parallel_for(
      groups * units, std::max<int64_t>(8, one_range_each(units, 1) / 4), [&](int64_t begin, int64_t end) {
        std::vector<Run> runs;
        for (int64_t i = begin; i < end;) {
          const int64_t group = i / units, stop = std::min(end, (group + 1) * units);
          const std::vector<int64_t> shift = shifts_of(g, x, group, channels);
          const int64_t many = stop - i, most = columns_at_once(rows) / unit,
                        pieces = (many + most - 1) / most;
          for (int64_t piece = 0; piece < pieces; ++piece) {
            const int64_t q = (i - group * units + many * piece / pieces) * unit,
                          n = std::min(cols, (i - group * units + many * (piece + 1) / pieces) * unit) - q;
            float* c = scratch<float>(work_slot, rows * n);
            if (k == 0) {
              std::fill_n(c, rows * n, 0.0f);
            } else {
              runs_of(g, x, q, q + n, runs);
              count_multiply_adds(rows * n * k);
              pursuit::rows<float>().gemm_runs(rows, n, k, a + group * rows * k, k, x.p, shift.data(),
                                               runs.data(), c, n);
            }
            store_columns(g, c, rows, q, n, bias ? bias + group * rows : nullptr, to, group * rows);
          }
          i = stop;
        }
      });
}

// The weights of x's gradient for the taps of a grid: [groups, channels of a group, outputs of a group x
// taps].
const float* transposed_weights(const ConvShape& s, const Grid& g, const float* weight) {
  const int64_t c = s.group_channels(), m = s.group_out();
  const int64_t taps = int64_t(g.h.tap.size() * g.w.tap.size());
  float* to = scratch<float>(weights_slot, s.groups * c * m * taps);
  parallel_for(s.channels, std::max<int64_t>(1, 4096 / (m * taps + 1)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* row = to + i * m * taps;
      for (int64_t o = 0; o < m; ++o)
        for (const int64_t down : g.h.tap)
          for (const int64_t across : g.w.tap)
            *row++ = weight[((i / c * m + o) * c + i % c) * s.taps() + down * s.w.kernel + across];
    }
  });
  return to;
}

// Calls f(index, plane) for each plane, a channel of a picture, of a depthwise convolution. The plane is
// copied to the L1 cache, with padding for the last vector.
template <class F>
void for_each_plane(const Source& s, int64_t begin, int64_t end, int64_t step, const F& f) {
  const int64_t plane = s.h.layout.length * s.w.layout.size();
  float* x = scratch<float>(work_slot, plane + 16);
  std::fill_n(x, plane + 16, 0.0f);
  for (int64_t i = begin; i < end; i += step) {
    lay_out(s, s.p + i * s.picture(), x);
    f(i, static_cast<const float*>(x));
  }
}

// The offsets of a grid's taps in a plane, and in the kernel.
struct Taps {
  std::vector<int64_t> place, weight;

  Taps(const Grid& g, int64_t pitch, int64_t kernel_width) {
    for (const int64_t down : g.h.offset)
      for (const int64_t across : g.w.offset) place.push_back(down * pitch + across);
    for (const int64_t down : g.h.tap)
      for (const int64_t across : g.w.tap) weight.push_back(down * kernel_width + across);
  }
  int64_t count() const { return int64_t(place.size()); }
};

// The windows of a grid in one plane, with the weights w of its channel: [kernel height, kernel width].
void window_sums(const Grid& g, const Taps& taps, const float* x, int64_t pitch, const float* w, float bias,
                 float* y, int64_t width) {
  float* weights = scratch<float>(weights_slot, taps.count());
  for (int64_t t = 0; t < taps.count(); ++t) weights[t] = w[taps.weight[size_t(t)]];
  const bool dense = g.w.to_step == 1 && g.h.to_step == 1;
  float* first = y + g.h.first * width + g.w.first;
  float* to = dense ? first : scratch<float>(columns_slot, g.size());
  const int64_t ld = dense ? width : g.w.positions;
  rows<float>().window_sums(x, g.h.step * pitch, taps.place.data(), weights, taps.count(), bias, to,
                            g.h.positions, g.w.positions, ld);
  if (dense) return;
  for (int64_t i = 0; i < g.h.positions; ++i)
    for (int64_t j = 0; j < g.w.positions; ++j)
      first[i * g.h.to_step * width + j * g.w.to_step] = to[i * ld + j];
}

// gw of a group, of rows [row, end) of its unfolded pictures; adds to gw unless these pictures are the first.
void multiply_by_unfolded(const ConvShape& s, const Grid& g, const Laid& x, const float* gy, int64_t pictures,
                          int64_t group, int64_t row, int64_t end, float* gw, bool first) {
  // Terms of the sum at a time, whole pictures or equal parts of one: the columns of a panel.
  constexpr int64_t most = 256, unfolded_rows = 96;
  const int64_t rows = s.group_out(), size = g.size();
  const int64_t parts = (size + most - 1) / most,
                together = parts > 1 ? 1 : std::max<int64_t>(1, most / size);
  const std::vector<int64_t> shift = shifts_of(g, x, group, s.group_channels());
  std::vector<Run> runs;
  for (int64_t n = 0; n < pictures; n += together)
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t many = std::min(together, pictures - n), begin = size * part / parts,
                    depth = many * (size * (part + 1) / parts - begin);
      const float* up = gy + (n * s.out + group * rows) * size + begin;
      int64_t ld = size;
      if (many > 1) {
        float* dense = scratch<float>(columns_slot, rows * depth);
        for (int64_t o = 0; o < rows; ++o)
          for (int64_t i = 0; i < many; ++i)
            std::copy_n(up + (i * s.out + o) * size, size, dense + o * depth + i * size);
        up = dense;
        ld = depth;
      }
      runs_of(g, x, n * size + begin, n * size + begin + depth, runs);
      const int64_t pieces = (end - row + unfolded_rows - 1) / unfolded_rows;
      float* columns = scratch<float>(work_slot, unfolded_rows * depth);
      for (int64_t piece = 0; piece < pieces; ++piece) {
        const int64_t k0 = row + (end - row) * piece / pieces,
                      wide = row + (end - row) * (piece + 1) / pieces - k0;
        pursuit::rows<float>().gather_runs(x.p, shift.data() + k0, wide, runs.data(), depth, columns);
        gemm(false, true, rows, wide, depth, 1.0f, up, ld, columns, depth,
             first && n == 0 && part == 0 ? 0.0f : 1.0f, gw + group * rows * s.depth() + k0, s.depth());
      }
    }
}

Source of_x(const ConvShape& s, const float* x) {
  return {x, s.channels, forward_direction(s.h, false), forward_direction(s.w, true)};
}
Source of_gy(const ConvShape& s, const float* gy) {
  return {gy, s.out, backward_direction(s.h), backward_direction(s.w)};
}

}  // namespace

void convolve(const ConvShape& s, const float* x, const float* weight, const float* bias, float* y) {
  const Source source = of_x(s, x);
  const Grid grid{source.h.lines[0], source.w.lines[0]};
  if (s.depthwise()) {
    count_multiply_adds(s.batch * s.out * s.positions() * s.depth());
    const int64_t pitch = source.w.layout.size();
    const Taps taps(grid, pitch, s.w.kernel);
    return parallel_for(s.batch * s.channels, 1, [&](int64_t begin, int64_t end) {
      for_each_plane(source, begin, end, 1, [&](int64_t i, const float* plane) {
        const int64_t c = i % s.channels;
        window_sums(grid, taps, plane, pitch, weight + c * s.taps(), bias ? bias[c] : 0,
                    y + i * s.positions(), s.across);
      });
    });
  }
  const int64_t many = pictures_at_once(source, s.batch);
  for (int64_t n = 0; n < s.batch; n += many) {
    const int64_t pictures = std::min(many, s.batch - n);
    multiply(grid, laid_out(source, n, pictures), pictures, s.groups, weight, s.group_out(), bias,
             {y + n * s.out * s.positions(), s.out, s.down, s.across});
  }
}

void convolve_input_gradient(const ConvShape& s, const float* gy, const float* weight, float* gx) {
  const Source source = of_gy(s, gy);
  if (s.depthwise()) {
    count_multiply_adds(s.batch * s.out * s.positions() * s.depth());
    const int64_t pitch = source.w.layout.size();
    return parallel_for(s.batch * s.channels, 1, [&](int64_t begin, int64_t end) {
      for (const Line& h : source.h.lines)
        for (const Line& w : source.w.lines) {
          const Taps taps({h, w}, pitch, s.w.kernel);
          for_each_plane(source, begin, end, 1, [&](int64_t i, const float* plane) {
            window_sums({h, w}, taps, plane, pitch, weight + i % s.channels * s.taps(), 0,
                        gx + i * s.picture(), s.w.size);
          });
        }
    });
  }
  const int64_t many = pictures_at_once(source, s.batch);
  for (int64_t n = 0; n < s.batch; n += many) {
    const int64_t pictures = std::min(many, s.batch - n);
    const Laid laid = laid_out(source, n, pictures);
    for (const Line& h : source.h.lines)
      for (const Line& w : source.w.lines)
        multiply({h, w}, laid, pictures, s.groups, transposed_weights(s, {h, w}, weight), s.group_channels(),
                 nullptr, {gx + n * s.channels * s.picture(), s.channels, s.h.size, s.w.size});
  }
}

void convolve_weight_gradient(const ConvShape& s, const float* x, const float* gy, float* gw) {
  const Source source = of_x(s, x);
  const Grid grid{source.h.lines[0], source.w.lines[0]};
  if (s.batch == 0) return void(std::fill_n(gw, s.out * s.depth(), 0.0f));
  if (s.depthwise()) {
    count_multiply_adds(s.batch * s.out * s.positions() * s.depth());
    const int64_t pitch = source.w.layout.size();
    const Taps taps(grid, pitch, s.w.kernel);
    return parallel_for(s.channels, 1, [&](int64_t begin, int64_t end) {
      std::vector<double> total(size_t(s.taps()));
      std::vector<float> sums(total.size());
      for (int64_t c = begin; c < end; ++c) {
        std::fill(total.begin(), total.end(), 0.0);
        for_each_plane(source, c, s.batch * s.channels, s.channels, [&](int64_t i, const float* plane) {
          std::fill(sums.begin(), sums.end(), 0.0f);
          rows<float>().window_weight_sums(plane, grid.h.step * pitch, taps.place.data(), s.taps(),
                                           gy + i * s.positions(), s.across, s.down, s.across, sums.data());
          for (size_t t = 0; t < sums.size(); ++t) total[t] += double(sums[t]);
        });
        for (size_t t = 0; t < sums.size(); ++t) gw[c * s.taps() + int64_t(t)] = float(total[t]);
      }
    });
  }
  const int64_t many = pictures_at_once(source, s.batch);
  for (int64_t n = 0; n < s.batch; n += many) {
    const int64_t pictures = std::min(many, s.batch - n);
    const Laid laid = laid_out(source, n, pictures);
    const int64_t depth = s.depth(), all = s.groups * depth;
    parallel_for(all, one_range_each(all, 16), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end;) {
        const int64_t group = i / depth, first = group * depth, stop = std::min(end, first + depth);
        multiply_by_unfolded(s, grid, laid, gy + n * s.out * s.positions(), pictures, group, i - first,
                             stop - first, gw, n == 0);
        i = stop;
      }
    });
  }
}

}  // namespace pursuit

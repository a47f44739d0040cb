#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "nn/attacks/registry.h"
#include "nn/attacks/search.h"

namespace pursuit::attacks {

namespace {

double share_at(int query, const SquareOptions& o) {
  const int64_t place = o.rescale ? int64_t(query) * 10000 / o.queries : query;
  double share = o.share;
  for (const int64_t halving : {10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000})
    if (place > halving) share /= 2;
  return share;
}

float flip(Random& random, double size) { return float(random.flip() ? size : -size); }

// A [rows, cols] pattern that rises towards its middle: nested rectangles, of which ring i adds 1 / i^2.
std::vector<double> hill(int64_t rows, int64_t cols) {
  std::vector<double> pattern(size_t(rows * cols));
  const int64_t middle_row = rows / 2, middle_col = cols / 2;
  for (int64_t ring = 0; ring <= std::max(middle_row, middle_col); ++ring)
    for (int64_t r = std::max<int64_t>(middle_row - ring, 0); r < std::min(middle_row + ring + 1, rows); ++r)
      for (int64_t c = std::max<int64_t>(middle_col - ring, 0); c < std::min(middle_col + ring + 1, cols);
           ++c)
        pattern[size_t(r * cols + c)] += 1.0 / double((ring + 1) * (ring + 1));
  return pattern;
}

void scale_to_unit(std::vector<double>& values) {
  double squares = 0;
  for (const double v : values) squares += v * v;
  for (double& v : values) v /= std::sqrt(squares) + 1e-12;
}

// A hill beside a valley, [side, side], of unit length, lying or standing.
std::vector<double> tile(int64_t side, Random& random) {
  std::vector<double> upper = hill(side / 2, side), lower = hill(side - side / 2, side), whole;
  scale_to_unit(upper);
  scale_to_unit(lower);
  whole = upper;
  for (const double v : lower) whole.push_back(-v);
  scale_to_unit(whole);
  if (random.flip()) return whole;
  std::vector<double> turned(whole.size());
  for (int64_t r = 0; r < side; ++r)
    for (int64_t c = 0; c < side; ++c) turned[size_t(c * side + r)] = whole[size_t(r * side + c)];
  return turned;
}

struct Window {
  int64_t top, left, side;
};

// A change of a picture, [C, H, W].
class Canvas {
 public:
  Canvas(const Search& search, Row values)
      : channels(search.channels()),
        height(search.height()),
        width(search.width()),
        values_(std::move(values)) {}

  const int64_t channels, height, width;
  float& at(int64_t c, int64_t row, int64_t col) { return values_[size_t((c * height + row) * width + col)]; }
  Row& values() { return values_; }

  Window window(int64_t side, bool inner, Random& random) const {
    const auto place = [&](int64_t size) {
      return random.below(std::max<int64_t>(size - side + (inner ? 0 : 1), 1));
    };
    const int64_t top = place(height);
    return {top, place(width), side};
  }
  // f(r, c, entry) for every entry of a channel's window.
  template <class F> void for_each(int64_t channel, const Window& w, const F& f) {
    for (int64_t r = 0; r < w.side; ++r)
      for (int64_t c = 0; c < w.side; ++c) f(r, c, at(channel, w.top + r, w.left + c));
  }
  double squares(int64_t channel, const Window& w) {
    double sum = 0;
    for_each(channel, w, [&](int64_t, int64_t, float v) { sum += double(v) * v; });
    return sum;
  }

 private:
  Row values_;
};

Row change_of(const Search& search, int64_t picture, const Row& form) {
  Row change = form;
  for (size_t i = 0; i < change.size(); ++i) change[i] -= search.origin(picture)[i];
  return change;
}

Row form_of(const Search& search, int64_t picture, Row change, const SquareOptions& o, double eps) {
  if (o.norm == Norm::l2) {
    const double size = length(change, Norm::l2) + 1e-12;
    for (float& v : change) v = float(v / size * eps);
  }
  for (size_t i = 0; i < change.size(); ++i) change[i] += search.origin(picture)[i];
  search.project(change, picture, o.norm, eps);
  return change;
}

// Vertical stripes, one sign per column and channel.
void draw_stripes(Canvas& canvas, double eps, Random& random) {
  for (int64_t c = 0; c < canvas.channels; ++c)
    for (int64_t col = 0; col < canvas.width; ++col) {
      const float stripe = flip(random, eps);
      for (int64_t row = 0; row < canvas.height; ++row) canvas.at(c, row, col) = stripe;
    }
}

// Five tiles a side.
void draw_tiles(Canvas& canvas, Random& random) {
  const int64_t side = std::max<int64_t>(std::min(canvas.height, canvas.width) / 5, 1);
  for (int64_t top = (canvas.height % side) / 2; top + side <= canvas.height; top += side)
    for (int64_t left = (canvas.width % side) / 2; left + side <= canvas.width; left += side) {
      const std::vector<double> pattern = tile(side, random);
      for (int64_t c = 0; c < canvas.channels; ++c) {
        const float sign = flip(random, 1);
        canvas.for_each(c, {top, left, side}, [&](int64_t row, int64_t col, float& v) {
          v = sign * float(pattern[size_t(row * side + col)]);
        });
      }
    }
}

void change_square(Canvas& canvas, double share, double eps, bool inner, Random& random) {
  const int64_t smaller = std::min(canvas.height, canvas.width);
  const auto side = std::llround(std::sqrt(share * double(canvas.height * canvas.width)));
  const Window w = canvas.window(std::clamp<int64_t>(side, 1, smaller), inner, random);
  for (int64_t c = 0; c < canvas.channels; ++c) {
    const float value = flip(random, eps);
    canvas.for_each(c, w, [&](int64_t, int64_t, float& v) { v = value; });
  }
}

// Moves the length of one window's change, and what the ball leaves, to another window, on whose change a
// tile is laid.
void move_length(Canvas& canvas, double share, double eps, bool inner, Random& random) {
  const int64_t smaller = std::min(canvas.height, canvas.width);
  int64_t side = std::max<int64_t>(std::llround(std::sqrt(share * double(canvas.height * canvas.width))), 3);
  side = std::min(side + (side % 2 == 0), smaller);
  const Window to = canvas.window(side, inner, random), from = canvas.window(side, inner, random);
  const double used = length(canvas.values(), Norm::l2), left = std::max(eps * eps - used * used, 0.0);
  const std::vector<double> pattern = tile(side, random);
  for (int64_t c = 0; c < canvas.channels; ++c) {
    const double before = canvas.squares(c, to);
    double both = before;  // of the union of the windows
    canvas.for_each(c, from, [&](int64_t row, int64_t col, float& v) {
      const int64_t r = from.top + row - to.top, k = from.left + col - to.left;
      if (r < 0 || r >= side || k < 0 || k >= side) both += double(v) * v;
    });
    const float sign = flip(random, 1);
    std::vector<double> fresh = pattern;
    canvas.for_each(c, to, [&](int64_t row, int64_t col, float& v) {
      double& f = fresh[size_t(row * side + col)];
      f = sign * f + v / (std::sqrt(before) + 1e-12);
    });
    scale_to_unit(fresh);
    canvas.for_each(c, from, [](int64_t, int64_t, float& v) { v = 0; });
    const double size = std::sqrt(left / double(canvas.channels) + both);
    canvas.for_each(c, to, [&](int64_t row, int64_t col, float& v) {
      v = float(size * fresh[size_t(row * side + col)]);
    });
  }
}

template <Norm ball> struct SquareAttack {
  static constexpr AttackTraits traits = {.name = ball == Norm::linf ? "square" : "square-l2", .norm = ball};
  struct Options : SquareOptions {
    Options() { norm = ball; }
  };

  template <class O, class F> static void for_each_option(O& o, const F& f) {
    f("queries", o.queries, "queries", Range{1, max_square_queries});
    f("share", o.share, "area of the first squares, of the picture's", Range{1e-6, 1});
    f("inner-windows", o.inner_windows,
      "as in the published code, no window reaches the last row or column, which leaves more pictures right");
    f("rescale", o.rescale, "shrink the squares at the same shares of the queries, however many there are");
  }
  static Tensor run(const Victim& v, const Tensor& x, double eps, const Options& o) {
    return attacks::square(v, x, eps, o);
  }
  static std::string describe(const Options& o) {
    const SquareOptions usual;
    return fmt::format("{} queries", o.queries) +
           (o.share == usual.share ? "" : fmt::format(", first squares of {:g}", o.share)) +
           (o.rescale ? ", rescaled" : "") + (o.inner_windows ? ", inner windows" : "");
  }
};
using SquareLinf = SquareAttack<Norm::linf>;
using SquareL2 = SquareAttack<Norm::l2>;
PURSUIT_ATTACK(SquareLinf)
PURSUIT_ATTACK(SquareL2)

}  // namespace

Tensor square(const Victim& victim, const Tensor& x, double eps, const SquareOptions& o) {
  if (o.queries < 1 || o.queries > max_square_queries)
    fail("attack", "square: got " + std::to_string(o.queries) + " queries, need 1 to " +
                       std::to_string(max_square_queries));
  Search search(victim, x);
  std::vector<Row> best;  // the form of every picture with the lowest margin
  for (int64_t i = 0; i < search.size(); ++i) best.push_back(search.origin(i));
  std::vector<double> margins(best.size(), INFINITY);

  for (int query = 0; query < o.queries; ++query) {
    const std::vector<int64_t> pictures = search.right();
    if (pictures.empty()) break;
    std::vector<Row> points(pictures.size());
    for_each_picture(pictures.size(), [&](size_t i) {
      const int64_t picture = pictures[i];
      Random random = search.random(picture, streams::attack::spsa_steps, uint64_t(query));
      Canvas canvas(search, change_of(search, picture, best[size_t(picture)]));
      const double share = share_at(query - 1, o);
      if (o.norm == Norm::linf)
        query == 0 ? draw_stripes(canvas, eps, random)
                   : change_square(canvas, share, eps, o.inner_windows, random);
      else
        query == 0 ? draw_tiles(canvas, random) : move_length(canvas, share, eps, o.inner_windows, random);
      points[i] = form_of(search, picture, canvas.values(), o, eps);
    });
    search.ask(pictures, points, [&](int64_t i, const Scores& s) {
      const size_t picture = size_t(pictures[size_t(i)]);
      const double margin = s.margin();
      if (margin < margins[picture]) {
        margins[picture] = margin;
        best[picture] = points[size_t(i)];
      }
      if (margin < 0) search.found(int64_t(picture), points[size_t(i)]);
    });
  }
  return search.result();
}

}  // namespace pursuit::attacks

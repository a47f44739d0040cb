#include "tests/corruptions/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/corruptions.h"
#include "data/segmentation.h"
#include "engine/base/error.h"
#include "tests/differences.h"

namespace pursuit::corruptions {

std::vector<data::Image> pictures() {
  constexpr int count = 4, side = 224;
  const auto scenes = data::open_scenes(data::Split::test, count, side, side);
  std::vector<data::Image> all;
  for (int64_t i = 0; i < scenes->size(); ++i) all.push_back(scenes->get(i).image);
  return all;
}

Statistics measure(const data::Image& corrupted, const data::Image& picture) {
  const std::vector<uint8_t>& v = corrupted.pixels;
  double sum = 0, squares = 0, errors = 0;
  for (size_t i = 0; i < v.size(); ++i) {
    sum += v[i];
    squares += double(v[i]) * v[i];
    const double error = double(v[i]) - picture.pixels.at(i);
    errors += error * error;
  }
  const double n = double(v.size()), mean = sum / n;
  double edges = 0;
  for (int y = 1; y < corrupted.height - 1; ++y)
    for (int x = 1; x < corrupted.width - 1; ++x)
      for (int c = 0; c < corrupted.channels; ++c) {
        const auto at = [&](int dx, int dy) { return int(corrupted.at(x + dx, y + dy)[c]); };
        edges += std::abs(4 * at(0, 0) - at(-1, 0) - at(1, 0) - at(0, -1) - at(0, 1));
      }
  const double inside = double(corrupted.width - 2) * (corrupted.height - 2) * corrupted.channels;
  return {mean, std::sqrt(squares / n - mean * mean), edges / inside,
          10 * std::log10(255.0 * 255.0 / std::max(errors / n, 1e-9))};
}

Statistics measure(const std::string& corruption, int severity, int seeds,
                   const std::vector<data::Image>& frost) {
  static const std::vector<data::Image> all = pictures();
  Statistics total;
  for (size_t i = 0; i < all.size(); ++i)
    for (int seed = 0; seed < seeds; ++seed) {
      // A seed for every picture and its repetition.
      const uint64_t number = uint64_t(i) * 1000 + uint64_t(seed);
      const Statistics one = measure(data::corrupt(all[i], corruption, severity, number, frost), all[i]);
      const double share = 1 / double(all.size() * size_t(seeds));
      total.mean += share * one.mean;
      total.deviation += share * one.deviation;
      total.laplacian += share * one.laplacian;
      total.psnr += share * one.psnr;
    }
  return total;
}

int seeds_of(const std::string& corruption) {
  const auto is = [&](std::initializer_list<const char*> names) {
    return std::find(names.begin(), names.end(), corruption) != names.end();
  };
  if (is({"defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg_compression"})) return 1;
  return is({"motion_blur", "frost", "fog"}) ? 200 : 20;  // the three differ much from draw to draw
}

Statistics original(const std::string& corruption, int severity) {
  const std::string path = PURSUIT_CORRUPTION_STATISTICS;
  try {
    std::ifstream file(path);
    static const nlohmann::json kept = nlohmann::json::parse(file).at("statistics");
    const std::vector<double> v = kept.at(corruption).at(size_t(severity - 1)).get<std::vector<double>>();
    return {v.at(0), v.at(1), v.at(2), v.at(3)};
  } catch (const std::exception& e) {
    fail("corruptions",
         fmt::format("{} has no statistics of {} {}: {}", path, corruption, severity, e.what()));
  }
}

double relative_error(const Statistics& ours, const Statistics& o) {
  const auto error = [](double got, double want) { return std::abs(got - want) / std::abs(want); };
  return largest_magnitude(std::vector{error(ours.mean, o.mean), error(ours.deviation, o.deviation),
                                       error(ours.laplacian, o.laplacian), error(ours.psnr, o.psnr)});
}

std::string describe(const Statistics& s) {
  return fmt::format("mean {:.2f}, deviation {:.2f}, laplacian {:.2f}, psnr {:.2f}", s.mean, s.deviation,
                     s.laplacian, s.psnr);
}

}  // namespace pursuit::corruptions

#include "data/loader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <thread>

#include "data/jpeg_turbo.h"
#include "data/mixup.h"
#include "engine/base/error.h"
#include "tests/needs.h"
#include "tests/temporary_folder.h"

using namespace pursuit::data;
using pursuit::Random;

namespace {

// Sample i is one grey pixel i % 251, label i % 7. Reading a sample in `broken` throws.
class Counting : public Dataset {
 public:
  explicit Counting(int64_t size, std::vector<int64_t> broken = {})
      : size_(size), broken_(std::move(broken)) {}
  int64_t size() const override { return size_; }
  int64_t label(int64_t i) const override { return i % 7; }
  std::string name(int64_t i) const override { return "counting#" + std::to_string(i); }
  const std::vector<std::string>& classes() const override { return classes_; }
  Sample get(int64_t i) const override {
    ++reads;
    if (std::count(broken_.begin(), broken_.end(), i))
      throw std::runtime_error("broken " + std::to_string(i));
    Sample sample{Image(1, 1, 1), label(i), i};
    sample.image.pixels[0] = uint8_t(i % 251);
    return sample;
  }
  mutable std::atomic<int64_t> reads = 0;

 private:
  int64_t size_;
  std::vector<int64_t> broken_;
  std::vector<std::string> classes_ = std::vector<std::string>(7, "class");
};

// Writes the pixel and a random number.
void pixel_and_chance(const Sample& sample, Random& random, std::span<uint8_t> chw) {
  chw[0] = sample.image.pixels[0];
  chw[1] = uint8_t(random.below(256));
}

std::vector<uint8_t> jpeg(int width, int height, int seed) {
  Image image(width, height, 3);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = uint8_t(40 * seed + i / 11);
  return encode_jpeg(image, 90);
}

LoaderOptions options_for(int64_t batch_size, int threads) {
  LoaderOptions options;
  options.batch_size = batch_size;
  options.channels = 2;
  options.height = options.width = 1;
  options.shuffle = true;
  options.threads = threads;
  options.seed = 5;
  return options;
}

std::vector<Batch> epoch(Loader& loader, int64_t number, int64_t from = 0) {
  std::vector<Batch> batches;
  loader.start(number, from);
  for (Batch batch; loader.next(batch);) batches.push_back(batch);
  return batches;
}

bool same(const Batch& a, const Batch& b) {
  return a.size == b.size && a.images == b.images && a.labels == b.labels && a.indices == b.indices;
}

bool same(const std::vector<Batch>& a, const std::vector<Batch>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Batch& x, const Batch& y) { return same(x, y); });
}

std::vector<int64_t> all_indices(const std::vector<Batch>& batches) {
  std::vector<int64_t> indices;
  for (const Batch& batch : batches)
    indices.insert(indices.end(), batch.indices.begin(), batch.indices.end());
  return indices;
}

}  // namespace

TEST_CASE("loader: an epoch visits every sample once, in a new order each time") {
  const Counting set(103);
  Loader loader(set, pixel_and_chance, options_for(10, 2));
  CHECK(loader.batches_per_epoch() == 11);
  const auto first = epoch(loader, 0), second = epoch(loader, 1);
  REQUIRE(first.size() == 11);
  CHECK(first.back().size == 3);
  CHECK(first[0].images.size() == 20);
  std::vector<int64_t> a = all_indices(first), b = all_indices(second), sorted = a;
  CHECK(a != b);
  std::sort(sorted.begin(), sorted.end());
  CHECK(!std::equal(sorted.begin(), sorted.end(), a.begin()));
  for (int64_t i = 0; i < 103; ++i) CHECK(sorted[size_t(i)] == i);
  for (const Batch& batch : first) {
    for (int64_t row = 0; row < batch.size; ++row) {
      CHECK(batch.images[size_t(2 * row)] == batch.indices[size_t(row)] % 251);
      CHECK(batch.labels[size_t(row)] == batch.indices[size_t(row)] % 7);
    }
  }
}

TEST_CASE("loader: without shuffling the order is the data set's") {
  const Counting set(25);
  LoaderOptions options = options_for(10, 1);
  options.shuffle = false;
  Loader loader(set, pixel_and_chance, options);
  const auto indices = all_indices(epoch(loader, 3));
  for (int64_t i = 0; i < 25; ++i) CHECK(indices[size_t(i)] == i);
}

TEST_CASE("loader: the same batches whatever the number of threads and the prefetch depth") {
  const Counting set(1000);
  Loader alone(set, pixel_and_chance, options_for(32, 0));
  const auto expected = epoch(alone, 2);
  for (const int threads : {1, 3}) {
    for (const int64_t prefetch : {1, 4}) {
      LoaderOptions options = options_for(32, threads);
      options.prefetch = prefetch;
      Loader loader(set, pixel_and_chance, options);
      CHECK(same(epoch(loader, 2), expected));
    }
  }
  LoaderOptions options = options_for(32, 0);
  options.seed = 6;
  Loader other(set, pixel_and_chance, options);
  CHECK(!same(epoch(other, 2), expected));
}

TEST_CASE("loader: resumes exactly at any epoch and batch") {
  const Counting set(200);
  for (const int threads : {0, 2}) {
    Loader loader(set, pixel_and_chance, options_for(16, threads));
    const auto whole = epoch(loader, 4);
    for (const int64_t from : {0, 1, 7, 12, 13}) {
      Loader resumed(set, pixel_and_chance, options_for(16, threads));
      CHECK(same(epoch(resumed, 4, from), {whole.begin() + from, whole.end()}));
    }
    // The same after stopping in the middle of another epoch.
    loader.start(9);
    Batch batch;
    CHECK(loader.next(batch));
    CHECK(same(epoch(loader, 4), whole));
    CHECK(!loader.next(batch));
    CHECK_THROWS_AS(loader.start(4, 14), pursuit::Error);
    CHECK_THROWS_AS(loader.start(-1), pursuit::Error);
  }
}

TEST_CASE("loader: drop_last leaves out the partial batch") {
  const Counting set(25);
  LoaderOptions options = options_for(10, 1);
  options.drop_last = true;
  Loader loader(set, pixel_and_chance, options);
  CHECK(loader.batches_per_epoch() == 2);
  CHECK(epoch(loader, 0).size() == 2);
  options.batch_size = 26;
  CHECK_THROWS_AS(Loader(set, pixel_and_chance, options), pursuit::Error);
}

TEST_CASE(
    "loader: repeated augmentation shows a sample several times in a row, with its own chance each time") {
  const Counting set(100);
  LoaderOptions options = options_for(10, 2);
  options.repeats = 3;
  Loader loader(set, pixel_and_chance, options);
  const auto batches = epoch(loader, 0);
  const auto indices = all_indices(batches);
  REQUIRE(indices.size() == 100);
  std::map<int64_t, int> counts;
  for (size_t p = 0; p < 99; ++p) {
    CHECK(indices[p] == indices[p / 3 * 3]);
    ++counts[indices[p]];
  }
  CHECK(counts.size() == 33);
  CHECK(batches[0].images[1] != batches[0].images[3]);
}

TEST_CASE("loader: shares of an epoch are the batches of one that takes it whole, every one once") {
  const Counting set(103);
  LoaderOptions options = options_for(8, 1);
  options.erasing.probability = 0.5;
  options.repeats = 2;
  Loader whole(set, pixel_and_chance, options);
  const auto want = epoch(whole, 3);
  REQUIRE(want.size() == 13);
  for (const int64_t count : {1, 2}) {
    std::vector<int> taken(want.size());
    for (int64_t first = 0; first < 4; first += count) {
      options.share = {first, count, 4};
      options.drop_last = false;
      Loader loader(set, pixel_and_chance, options);
      const auto got = epoch(loader, 3);
      REQUIRE(int64_t(got.size()) == loader.batches_per_epoch());
      CHECK(loader.steps_per_epoch() == (first == 0 ? 4 : 3));  // the last step has one batch
      for (size_t b = 0; b < got.size(); ++b) {
        const size_t number = b / size_t(count) * 4 + size_t(first) + b % size_t(count);
        REQUIRE(number < want.size());
        CHECK(got[b].images == want[number].images);
        CHECK(got[b].indices == want[number].indices);
        ++taken[number];
      }
      options.drop_last = true;
      Loader full(set, pixel_and_chance, options);
      CHECK(full.steps_per_epoch() == 3);
      CHECK(full.batches_per_epoch() == 3 * count);
      full.start_step(3, 2);
      Batch batch;
      REQUIRE(full.next(batch));
      CHECK(batch.images == want[size_t(2 * 4 + first)].images);
    }
    CHECK(taken == std::vector<int>(want.size(), 1));
  }
}

TEST_CASE("loader: a share of fewer samples than it has batches") {
  const Counting set(3);
  LoaderOptions options = options_for(2, 0);
  options.share = {2, 1, 4};
  Loader loader(set, pixel_and_chance, options);
  CHECK(loader.batches_per_epoch() == 0);
  Batch batch;
  loader.start(0);
  CHECK(!loader.next(batch));
  options.drop_last = true;
  CHECK_THROWS_WITH_AS(Loader(set, pixel_and_chance, options), doctest::Contains("samples of a step"),
                       pursuit::Error);
}

TEST_CASE("loader: an error comes out with its batch, and the rest goes on") {
  const Counting set(100, {25, 27, 91});
  for (const int threads : {0, 1, 3}) {
    LoaderOptions options = options_for(10, threads);
    options.shuffle = false;
    Loader loader(set, pixel_and_chance, options);
    for (int round = 0; round < 2; ++round) {
      loader.start(round);
      Batch batch;
      std::string errors;
      int64_t good = 0;
      for (int64_t b = 0; b < 10; ++b) {
        try {
          good += loader.next(batch);
          CHECK(batch.indices[0] == 10 * b);
        } catch (const std::runtime_error& error) {
          errors += std::to_string(b) + ": " + error.what() + "; ";
        }
      }
      CHECK(good == 8);
      CHECK(errors == "2: broken 25; 9: broken 91; ");
      CHECK(!loader.next(batch));
    }
  }
}

TEST_CASE("loader: prefetching is bounded, and destruction in mid-epoch is prompt") {
  const Counting set(1000000);
  LoaderOptions options = options_for(10, 3);
  options.prefetch = 3;
  const auto begin = std::chrono::steady_clock::now();
  {
    Loader loader(set, pixel_and_chance, options);
    loader.start(0);
    Batch batch;
    CHECK(loader.next(batch));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK(set.reads <= 4 * 10);  // one delivered, three ready
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
}

TEST_CASE("loader: senseless options are refused") {
  const Counting set(10);
  const auto refused = [&](auto change) {
    LoaderOptions options = options_for(2, 1);
    change(options);
    CHECK_THROWS_AS(Loader(set, pixel_and_chance, options), pursuit::Error);
  };
  refused([](LoaderOptions& o) { o.batch_size = 0; });
  refused([](LoaderOptions& o) { o.threads = -1; });
  refused([](LoaderOptions& o) { o.prefetch = 0; });
  refused([](LoaderOptions& o) { o.repeats = 0; });
  refused([](LoaderOptions& o) { o.share = {1, 1, 1}; });
  refused([](LoaderOptions& o) { o.share = {0, 0, 1}; });
  refused([](LoaderOptions& o) { o.share = {-1, 1, 2}; });
  refused([](LoaderOptions& o) { o.width = 0; });
}

TEST_CASE("beta variates have the mean and variance of their distribution") {
  Random random(1);
  const double shapes[][2] = {{0.8, 0.8}, {1, 1}, {0.2, 0.2}, {2, 5}, {0.5, 3}};
  for (const auto& [a, b] : shapes) {
    double sum = 0, squares = 0;
    const int n = 100000;
    bool inside = true;
    for (int i = 0; i < n; ++i) {
      const double x = sample_beta(random, a, b);
      inside = inside && x >= 0 && x <= 1;
      sum += x;
      squares += x * x;
    }
    CHECK(inside);
    const double mean = sum / n, variance = squares / n - mean * mean;
    const double expected = a * b / ((a + b) * (a + b) * (a + b + 1));
    CHECK(std::fabs(mean - a / (a + b)) < 4 * std::sqrt(expected / n));
    CHECK(variance == doctest::Approx(expected).epsilon(0.02));
  }
  for (int i = 0; i < 1000; ++i) CHECK(std::isfinite(sample_beta(random, 1e-3, 1e-3)));
  CHECK_THROWS_AS(sample_beta(random, 0, 1), pursuit::Error);
}

TEST_CASE("loader: boxes for random erasing come with their pictures, and only where asked for") {
  const Counting set(400);
  const auto wide = [](const Sample&, Random&, std::span<uint8_t> chw) {
    std::ranges::fill(chw, uint8_t(0));
  };
  LoaderOptions options = options_for(50, 1);
  options.width = 16;
  options.height = 8;
  const auto boxes = [&](double probability, int threads) {
    options.erasing.probability = probability;
    options.threads = threads;
    Loader loader(set, wide, options);
    std::vector<Box> all;
    for (const Batch& b : epoch(loader, 0)) all.insert(all.end(), b.erased.begin(), b.erased.end());
    return all;
  };
  const auto count = [](const std::vector<Box>& all) {
    return std::count_if(all.begin(), all.end(), [](const Box& b) { return b.width * b.height > 0; });
  };
  const std::vector<Box> some = boxes(0.25, 0), again = boxes(0.25, 3);
  REQUIRE(some.size() == 400);
  CHECK(count(boxes(0, 1)) == 0);
  CHECK(std::abs(count(some) - 100) < 45);
  for (size_t i = 0; i < some.size(); ++i) {
    CHECK(some[i].x + some[i].width <= 16);
    CHECK(some[i].y + some[i].height <= 8);
    CHECK(some[i].x == again[i].x);
    CHECK(some[i].height == again[i].height);
  }
}

TEST_CASE("mixup: the whole picture, each its own share") {
  Random random(2);
  MixupOptions options;
  options.cutmix_alpha = 0;
  for (int round = 0; round < 20; ++round) {
    const Mix mix = draw_mix(options, 12, 9, random);
    REQUIRE(!mix.cutmix);
    CHECK(mix.own() == float(mix.lambda));
    CHECK(mix.box.width * mix.box.height == 12 * 9);
  }
}

TEST_CASE("cutmix: lambda is the share of pixels kept") {
  Random random(3);
  MixupOptions options;
  options.mixup_alpha = 0;
  double mean = 0;
  const int rounds = 2000;
  for (int round = 0; round < rounds; ++round) {
    const Mix mix = draw_mix(options, 12, 9, random);
    REQUIRE(mix.cutmix);
    CHECK(mix.own() == 0);
    const Box& b = mix.box;
    CHECK(std::min({b.x, b.y, b.width, b.height}) >= 0);
    CHECK(b.x + b.width <= 12);
    CHECK(b.y + b.height <= 9);
    CHECK(1 - b.width * b.height / 108.0 == doctest::Approx(mix.lambda));
    mean += mix.lambda / rounds;
  }
  // Uniform lambda cuts half the area on average, less what falls outside and what rounding takes.
  CHECK(mean > 0.5);
  CHECK(mean < 0.8);
}

TEST_CASE("mixing probabilities") {
  Random random(4);
  const auto shares = [&](const MixupOptions& options) {
    double mixed = 0, cut = 0;
    for (int i = 0; i < 4000; ++i) {
      const Mix mix = draw_mix(options, 32, 32, random);
      mixed += (mix.lambda != 1 || mix.cutmix) / 4000.0;
      cut += mix.cutmix / 4000.0;
    }
    return std::pair(mixed, cut);
  };
  MixupOptions options;
  CHECK(shares(options).first == doctest::Approx(1));
  CHECK(shares(options).second == doctest::Approx(0.5).epsilon(0.06));
  options.probability = 0.3;
  options.switch_probability = 1;
  CHECK(shares(options).first == doctest::Approx(0.3).epsilon(0.1));
  CHECK(shares(options).second == doctest::Approx(0.3).epsilon(0.1));
  options.mixup_alpha = options.cutmix_alpha = 0;
  CHECK(shares(options).first == 0);
  options.mixup_alpha = -1;
  CHECK_THROWS_AS(draw_mix(options, 32, 32, random), pursuit::Error);
}

TEST_CASE("mixup draws for every 256 pictures, and mirrors within them") {
  const auto draws = [](int64_t batch) {
    Random random(6);
    return draw_mixes({.cutmix_alpha = 0}, batch, 32, 32, random);
  };
  CHECK(draws(64).size() == 1);
  CHECK(draws(256).size() == 1);
  CHECK(draws(1024).size() == 4);
  CHECK(draws(64)[0].lambda == draws(1024)[0].lambda);
  CHECK(mix_partner(0, 64) == 63);
  CHECK(mix_partner(0, 1024) == 255);
  CHECK(mix_partner(1023, 1024) == 768);
  CHECK(mix_partner(256, 300) == 299);  // what is left over is a smaller group
  const int64_t batch = 600;
  const std::vector<Mix> mixes = draws(batch);
  REQUIRE(mixes.size() == 3);
  CHECK(mixes[0].lambda != mixes[1].lambda);
  std::vector<int64_t> labels;
  for (int64_t b = 0; b < batch; ++b) labels.push_back(b);
  const auto rows = mix_rows(batch, mixes), targets = mix_targets(labels, batch, 0, mixes);
  REQUIRE(rows.size() == size_t(6 * batch));
  for (int64_t b = 0; b < batch; ++b) {
    const float* row = &rows[size_t(6 * b)];
    CHECK(row[0] == float(mixes[size_t(b / 256)].lambda));
    CHECK(row[5] == float(mix_partner(b, batch)));
    CHECK(mix_partner(mix_partner(b, batch), batch) == b);
    CHECK(targets[size_t(b * batch + b)] == doctest::Approx(row[0]));
    CHECK(targets[size_t(b * batch + mix_partner(b, batch))] == doctest::Approx(1 - row[0]));
  }
}

TEST_CASE("targets: smoothing, mixing, and rows that sum to 1") {
  const std::vector<int64_t> labels{0, 3, 3};
  const auto plain = mix_targets(labels, 4, 0.1);
  REQUIRE(plain.size() == 12);
  CHECK(plain[0] == doctest::Approx(0.925));
  CHECK(plain[1] == doctest::Approx(0.025));
  Mix mix;
  mix.lambda = 0.6;
  const auto mixed = mix_targets(labels, 4, 0.1, {mix});
  CHECK(mixed[0] == doctest::Approx(0.6 * 0.9 + 0.025));  // row 0: class 0, partner class 3
  CHECK(mixed[3] == doctest::Approx(0.4 * 0.9 + 0.025));
  CHECK(mixed[7] == doctest::Approx(0.925));  // row 1: its own partner
  for (size_t b = 0; b < 3; ++b) {
    float sum = 0;
    for (size_t k = 0; k < 4; ++k) sum += mixed[4 * b + k];
    CHECK(sum == doctest::Approx(1));
  }
  CHECK_THROWS_AS(mix_targets({0, 4}, 4, 0.1), pursuit::Error);
  CHECK_THROWS_AS(mix_targets({-1}, 4, 0.1), pursuit::Error);
  CHECK_THROWS_AS(mix_targets({0}, 4, 1.5), pursuit::Error);
}

void check_drawn_parts(Decoder decoder) {
  const TemporaryFolder folder;
  for (int i = 0; i < 9; ++i) {
    const auto path = folder.path / "train" / "a" / (std::to_string(i) + ".jpg");
    std::filesystem::create_directories(path.parent_path());
    std::vector<uint8_t> bytes = jpeg(50 + i, 40, i);
    // A picture whose size can be read and whose data cannot: its part is drawn in vain.
    if (i == 4) std::fill(bytes.end() - 200, bytes.end() - 2, uint8_t(0xfe));
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  }
  const auto set =
      open_dataset(folder.path.string(), Split::train, {.skip_bad = true, .decoding = {decoder}});
  LoaderOptions options;
  options.batch_size = 9;
  options.height = options.width = 8;
  options.threads = 2;
  options.seed = 7;
  const auto after = [](const Image& image, Random& random, std::span<uint8_t> chw) {
    to_planes(resize(random_flip(image, random), 8, 8, Filter::bicubic), chw);
  };
  Loader whole(
      *set,
      [&](const Sample& sample, Random& random, std::span<uint8_t> chw) {
        const Box box = draw_crop(sample.image.width, sample.image.height, random);
        after(crop(sample.image, box.x, box.y, box.width, box.height), random, chw);
      },
      options);
  options.part = [](int width, int height, Random& random) { return Part{draw_crop(width, height, random)}; };
  Loader parts(
      *set,
      [&](const Sample& sample, Random& random, std::span<uint8_t> chw) { after(sample.image, random, chw); },
      options);
  whole.start(0);
  parts.start(0);
  Batch a, b;
  REQUIRE(whole.next(a));
  REQUIRE(parts.next(b));
  CHECK(a.labels == b.labels);
  CHECK(a.size == 9);
  size_t same = 0;
  for (size_t row = 0; row < 9; ++row)
    same += std::equal(&a.images[row * 192], &a.images[row * 192] + 192, &b.images[row * 192]);
  // libjpeg-turbo may not come to the damage below a part.
  CHECK(same >= (decoder == Decoder::stb ? 9 : 8));
  CHECK(parts.waited() > 0);
}

TEST_CASE("loader: a part is drawn before the picture is decoded, and once for each row") {
  check_drawn_parts(Decoder::stb);
}
TEST_CASE("loader: the same by libjpeg-turbo" * NEEDS("turbo", !has_turbo())) {
  check_drawn_parts(Decoder::turbo);
}

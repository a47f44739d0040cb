#include "data/resize.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "data/kernels.h"
#include "engine/base/error.h"
#include "engine/base/random.h"
#include "engine/cpu/rows.h"
#include "tests/data/drawn_images.h"

using namespace pursuit::data;

TEST_CASE("kernels of pictures: all instruction sets give the same bits") {
  pursuit::Random random(11);
  std::vector<uint8_t> bytes(64 * 64 * 4 + 64);
  for (uint8_t& b : bytes) b = uint8_t(random.next());
  std::vector<int32_t> weights;
  for (int i = 0; i < 40; ++i) weights.push_back(int32_t(random.below(1 << 22)) / 6 - (1 << 18));
  const auto results = [&](const std::string& isa) {
    const PictureKernels& k = picture_kernels(isa);
    std::vector<uint8_t> all;
    const auto keep = [&](const std::vector<uint8_t>& out) { all.insert(all.end(), out.begin(), out.end()); };
    for (const int count : {1, 2, 7}) {
      std::vector<uint8_t> out(45, 1);
      k.weigh_rows(bytes.data(), 64, {3, count, weights.data()}, out.size(), out.data());
      keep(out);
      const uint8_t* rows[kLanes];
      for (int r = 0; r < kLanes; ++r) rows[r] = &bytes[size_t(r) * 70];
      const std::vector<Window> windows = {
          {0, count, &weights[2]}, {4, 3, &weights[5]}, {11, 2, &weights[20]}};
      for (const int channels : {1, 3}) {
        std::vector<uint8_t> scratch(kLanes * 64), columns(kLanes * 16);
        k.weigh_columns(rows, size_t(13 * channels), windows.data(), 3, channels, scratch.data(),
                        columns.data(), 16);
        for (int r = 0; r < kLanes; ++r)
          all.insert(all.end(), &columns[size_t(r) * 16], &columns[size_t(r) * 16] + 3 * channels);
      }
    }
    for (const int taps : {2, 4})
      for (const int channels : {1, 3})
        for (const AffineMap& map :
             {AffineMap{{0.9, 0.2, 1.3, -0.3, 1.1, 4}}, AffineMap{{1, 0, 2.5, 0, 1, 0}}})
          for (const int y : {0, 17, 39}) {
            std::vector<uint8_t> row(size_t(50 * channels), 9);
            k.affine_row(bytes.data(), 2, 50, 40, map, taps, y, channels, row.data());
            keep(row);
          }
    std::vector<uint8_t> out(1003);
    for (const float factor : {-0.7f, 0.3f, 1.9f}) {
      k.blend(bytes.data(), &bytes[2000], out.size(), factor, out.data());
      keep(out);
    }
    k.grey(bytes.data(), out.size(), out.data());
    keep(out);
    k.planes(bytes.data(), out.size() / 3, out.data());
    keep(out);
    k.smooth(&bytes[300], out.size(), 100, 3, out.data());
    keep(out);
    return all;
  };
  const std::vector<uint8_t> plain = results("sse2");
  REQUIRE(plain.size() > 4000);
  for (const char* isa : {"avx2", "avx512"})
    if (pursuit::isa_supported(isa)) CHECK_MESSAGE(results(isa) == plain, isa);
}

TEST_CASE("luma as Pillow rounds it") {
  CHECK(largest_difference(to_grey(formula(4, 3, 3)),
                           {82, 119, 127, 164, 112, 162, 62, 112, 171, 84, 147, 133}) == 0);
  const Image grey = formula(4, 3, 1);
  CHECK(to_grey(to_rgb(grey)).pixels == grey.pixels);
}

TEST_CASE("resize agrees with Pillow") {
  const Image rgb = formula(9, 7, 3), grey = formula(4, 3, 1);
  CHECK(largest_difference(
            resize(rgb, 4, 3, Filter::bicubic),
            {85,  135, 110, 125, 130, 126, 129, 126, 154, 113, 145, 161, 173, 99,  117, 152, 137, 129,
             124, 121, 148, 114, 125, 139, 134, 148, 122, 153, 105, 112, 96,  110, 162, 153, 150, 120}) <= 1);
  CHECK(largest_difference(
            resize(rgb, 4, 3, Filter::bilinear),
            {90,  135, 109, 125, 129, 127, 126, 124, 153, 115, 145, 157, 166, 104, 118, 150, 138, 128,
             123, 120, 150, 117, 126, 140, 136, 144, 123, 148, 110, 117, 105, 109, 156, 148, 148, 123}) <= 1);
  CHECK(largest_difference(
            resize(rgb, 4, 3, Filter::box),
            {52,  153, 126, 118, 133, 106, 141, 114, 151, 100, 137, 174, 173, 103, 119, 149, 136, 124,
             126, 99,  157, 107, 123, 139, 123, 160, 133, 138, 111, 127, 90,  127, 164, 179, 152, 125}) <= 1);
  CHECK(largest_difference(resize(grey, 6, 5, Filter::bicubic),
                           {0,   10,  37,  62, 89,  106, 17,  35,  66,  93,  130, 156, 56,  80,  117,
                            151, 188, 212, 96, 124, 170, 218, 165, 103, 118, 149, 200, 255, 143, 25}) <= 1);
  CHECK(largest_difference(resize(grey, 6, 5, Filter::bilinear),
                           {0,   19,  43,  68, 93,  111, 24,  45,  73,  101, 129, 150, 59,  84,  117,
                            151, 184, 209, 94, 124, 162, 200, 162, 114, 118, 150, 192, 233, 148, 51}) <= 1);
}

TEST_CASE("resize: constants stay, ramps stay ramps, down and up again comes close") {
  for (Filter filter : {Filter::box, Filter::bilinear, Filter::bicubic}) {
    Image flat(13, 11, 3);
    std::fill(flat.pixels.begin(), flat.pixels.end(), uint8_t(201));
    for (auto [w, h] : {std::pair{5, 4}, {40, 3}, {13, 50}, {1, 1}, {300, 200}}) {
      const Image out = resize(flat, w, h, filter);
      CHECK(out.width == w);
      CHECK(out.height == h);
      CHECK(std::all_of(out.pixels.begin(), out.pixels.end(), [](uint8_t v) { return v == 201; }));
    }
    CHECK(resize(formula(9, 7, 3), 9, 7, filter).pixels == formula(9, 7, 3).pixels);
  }
  Image ramp(200, 3, 1);
  for (int y = 0; y < 3; ++y)
    for (int x = 0; x < 200; ++x) *ramp.at(x, y) = uint8_t(x);
  for (Filter filter : {Filter::bilinear, Filter::bicubic}) {
    const Image half = resize(ramp, 100, 3, filter);
    for (int x = 4; x < 96; ++x)
      CHECK(std::abs(*half.at(x, 1) - (2 * x + 0.5)) <= 1);  // mean of pixels 2x and 2x+1
    const Image wide = resize(ramp, 400, 3, filter);
    for (int x = 8; x < 392; ++x) CHECK(std::abs(*wide.at(x, 1) - ((x + 0.5) / 2 - 0.5)) <= 1);
  }
  const Image image = waves(120, 90);
  CHECK(mean_difference(resize(resize(image, 60, 45, Filter::bicubic), 120, 90, Filter::bicubic), image) <
        1.5);
  CHECK_THROWS_AS(resize(image, 0, 5, Filter::bilinear), pursuit::Error);
  CHECK_THROWS_AS(resize(image, 5, -1, Filter::bilinear), pursuit::Error);
  CHECK_THROWS_AS(resize(Image(), 5, 5, Filter::bilinear), pursuit::Error);
}

TEST_CASE("a part of a resized picture is what a crop of the whole would be") {
  for (const int channels : {1, 3})
    for (const auto& [width, height] : {std::pair{31, 7}, {19, 23}, {5, 40}, {19, 9}, {19, 22}}) {
      const Image image = formula(19, 22, channels);
      for (const Box& part : {Box{0, 0, width, height}, Box{1, 2, 3, 4}, Box{width - 2, height - 5, 2, 5},
                              Box{width / 2, height / 2, 1, 1}}) {
        const auto cropped = [&](const Image& whole) {
          return crop(whole, part.x, part.y, part.width, part.height).pixels;
        };
        for (const Filter filter : {Filter::box, Filter::bilinear, Filter::bicubic})
          CHECK(resize(image, width, height, part, filter).pixels ==
                cropped(resize(image, width, height, filter)));
        CHECK(resize_nearest(image, width, height, part).pixels ==
              cropped(resize_nearest(image, width, height)));
      }
    }
  const Image image = formula(4, 4, 3);
  for (const Box& outside : {Box{0, 0, 0, 1}, Box{0, 0, 1, 0}, Box{-1, 0, 2, 2}, Box{0, -1, 2, 2},
                             Box{7, 0, 2, 1}, Box{0, 5, 1, 2}, Box{1, 0, 2147483647, 1}}) {
    CHECK_THROWS_AS(resize(image, 8, 6, outside, Filter::bilinear), pursuit::Error);
    CHECK_THROWS_AS(resize_nearest(image, 8, 6, outside), pursuit::Error);
  }
}

TEST_CASE("shrinking does not alias") {
  Image stripes(256, 8, 1);
  for (size_t i = 0; i < stripes.pixels.size(); ++i) stripes.pixels[i] = i % 2 ? 255 : 0;
  for (Filter filter : {Filter::box, Filter::bilinear, Filter::bicubic})
    for (uint8_t v : resize(stripes, 32, 8, filter).pixels) CHECK(std::abs(v - 127.5) < 6);
}

TEST_CASE("a scaled side is rounded, at least 1, and refused where no picture can be as long") {
  CHECK(scaled_side(7, 0.5) == 4);
  CHECK(scaled_side(3, 0.1) == 1);
  CHECK(scaled_side(1 << 30, 1.999) == 2146409906);
  CHECK_THROWS_WITH_AS(scaled_side(8'000'000, 2 * 144.0), doctest::Contains("too thin"), pursuit::Error);
}

TEST_CASE("resize_shorter and center_crop round as torchvision does") {
  const auto shape = [](const Image& image) { return std::pair{image.width, image.height}; };
  CHECK(shape(resize_shorter(Image(500, 375, 3), 256, Filter::bilinear)) == std::pair{341, 256});
  CHECK(shape(resize_shorter(Image(375, 500, 3), 256, Filter::bilinear)) == std::pair{256, 341});
  CHECK(shape(resize_shorter(Image(28, 28, 1), 32, Filter::bilinear)) == std::pair{32, 32});

  const Image image = formula(341, 256, 3);  // margins 58.5 and 16: the half goes to the even number
  const Image middle = center_crop(image, 224, 224);
  CHECK(std::memcmp(middle.at(0, 0), image.at(58, 16), 3 * 224) == 0);
  CHECK(std::memcmp(middle.at(0, 223), image.at(58, 239), 3 * 224) == 0);
  CHECK(std::memcmp(center_crop(formula(343, 224, 3), 224, 224).at(0, 0), formula(343, 224, 3).at(60, 0),
                    3) == 0);

  const Image small = formula(3, 2, 1), padded = center_crop(small, 6, 4);  // one column left, two right
  CHECK(*padded.at(1, 1) == *small.at(0, 0));
  CHECK(*padded.at(3, 2) == *small.at(2, 1));
  CHECK(std::accumulate(padded.pixels.begin(), padded.pixels.end(), 0) ==
        std::accumulate(small.pixels.begin(), small.pixels.end(), 0));
}

TEST_CASE("imagenet_view is the middle of the resized picture, of thin ones too") {
  for (const auto& [width, height] : {std::pair{500, 375}, {375, 501}, {224, 224}, {30, 91}}) {
    const Image image = formula(width, height, 3);
    CHECK(imagenet_view(image, 224, Filter::bicubic).pixels ==
          center_crop(resize_shorter(image, 256, Filter::bicubic), 224, 224).pixels);
  }
  const Image thin = imagenet_view(Image(1, 65535, 1), 224, Filter::bicubic);  // as a whole 4 GB
  CHECK(thin.width == 224);
  CHECK(thin.height == 224);
  CHECK_THROWS_WITH_AS(imagenet_view(Image(1, 10'000'000, 1), 224, Filter::bilinear),
                       doctest::Contains("1 x 10000000 is too thin"), pursuit::Error);
}

TEST_CASE("crop and flip are exact") {
  const Image image = formula(10, 6, 3);
  const Image part = crop(image, 3, 2, 4, 3);
  for (int y = 0; y < 3; ++y)
    for (int x = 0; x < 4; ++x) CHECK(std::equal(part.at(x, y), part.at(x, y) + 3, image.at(x + 3, y + 2)));
  const Image outside = crop(image, -2, -1, 14, 8);
  CHECK(*outside.at(1, 3) == 0);
  CHECK(*outside.at(5, 0) == 0);
  CHECK(std::equal(outside.at(2, 1), outside.at(12, 1), image.at(0, 0)));
  const Image far = crop(image, 100, 100, 2, 2);
  CHECK(std::all_of(far.pixels.begin(), far.pixels.end(), [](uint8_t v) { return v == 0; }));
  CHECK_THROWS_AS(crop(image, 0, 0, 0, 3), pursuit::Error);

  const Image flipped = flip_horizontal(image);
  for (int y = 0; y < 6; ++y)
    for (int x = 0; x < 10; ++x)
      CHECK(std::equal(flipped.at(x, y), flipped.at(x, y) + 3, image.at(9 - x, y)));
  CHECK(flip_horizontal(flipped).pixels == image.pixels);
  CHECK(resized_crop(image, 2, 1, 5, 4, 3, 3, Filter::bicubic).pixels ==
        resize(crop(image, 2, 1, 5, 4), 3, 3, Filter::bicubic).pixels);
}

#include "data/interactive/object_files.h"

#include <algorithm>

#include "data/dataset.h"
#include "data/decoded_files.h"
#include "data/interactive/bmp.h"
#include "data/jpeg_turbo.h"
#include "data/paired_files.h"
#include "engine/base/error.h"
#include "engine/cpu/parallel.h"

namespace pursuit::data {
namespace {

constexpr const char* where = "objects";

// The numbers of the objects with at least `least_area` pixels, the largest first; the lower number of equal
// ones.
std::vector<int32_t> by_area(const ObjectMap& map, int64_t least_area) {
  std::vector<int64_t> area;
  for (const int32_t number : map.of_pixel) {
    if (number <= 0) continue;
    if (size_t(number) >= area.size()) area.resize(size_t(number) + 1);
    ++area[size_t(number)];
  }
  std::vector<int32_t> numbers;
  for (size_t n = 1; n < area.size(); ++n)
    if (area[n] >= least_area) numbers.push_back(int32_t(n));
  std::stable_sort(numbers.begin(), numbers.end(),
                   [&](int32_t a, int32_t b) { return area[size_t(a)] > area[size_t(b)]; });
  return numbers;
}

class ObjectFiles : public SegmentationDataset {
 public:
  ObjectFiles(ObjectPictures pictures, const std::string& path, const ObjectOptions& options)
      : pictures_(std::move(pictures)),
        decoding_(options.decoding),
        least_area_(options.least_area),
        objects_(find_objects(options.skip_bad)),
        numbers_(samples_in_use(int64_t(objects_.size()), options.first, options.limit)),
        decoded_(
            path, size(), [this](int64_t i) { return load(i); },
            [](const SegmentationSample& s) {
              return int64_t(s.image.pixels.size() + s.labels.pixels.size());
            },
            options.skip_bad, options.cache_bytes) {
    check_decoder(decoding_);
    if (objects_.empty())
      fail(where, path + " holds no object of at least " + std::to_string(least_area_) +
                      " pixels for the split " + choice_name(split()) + ", in " +
                      std::to_string(pictures_.pictures.size()) + " pictures with masks");
  }

  int64_t size() const override { return int64_t(numbers_.size()); }
  std::string name(int64_t i) const override {
    const auto& [picture, rank] = object(i);
    const ObjectPictures::Picture& files = pictures_.pictures[size_t(picture)];
    return files.object.empty() ? files.image + "#" + std::to_string(rank + 1) : files.object;
  }
  std::string label_file(int64_t i) const override {
    return pictures_.pictures[size_t(object(i).picture)].mask;
  }
  Split split() const override { return pictures_.split; }
  const std::vector<std::string>& classes() const override { return object_key().classes(); }
  const std::vector<Rgb>& colours() const override { return object_key().colours(); }
  int64_t skipped() const override { return pictures_.incomplete + damaged_ + decoded_.bad(); }

  SegmentationSample get(int64_t i) const override {
    auto [sample, found] = decoded_.get(i);
    sample.index = found == i ? numbers_[size_t(i)] : -1;
    return sample;
  }

  Image labels(int64_t i) const override {
    const auto& [picture, rank] = object(i);
    const ObjectMap map = pictures_.map(picture);
    const std::vector<int32_t> numbers = by_area(map, least_area_);
    if (size_t(rank) >= numbers.size())
      fail(where, label_file(i) + " has " + std::to_string(numbers.size()) +
                      " objects, fewer than when the data was opened: open it again");
    Image labels(map.width, map.height, 1);
    for (size_t p = 0; p < labels.pixels.size(); ++p)
      labels.pixels[p] =
          map.of_pixel[p] == kNotCounted ? kIgnoredLabel : uint8_t(map.of_pixel[p] == numbers[size_t(rank)]);
    return labels;
  }

 private:
  struct Object {
    int64_t picture, rank;  // 0: the picture's largest
  };

  const Object& object(int64_t i) const { return objects_[size_t(numbers_.at(size_t(i)))]; }

  std::vector<Object> find_objects(bool skip_bad) {
    const auto pictures = int64_t(pictures_.pictures.size());
    std::vector<int64_t> count(size_t(pictures), 0);
    std::vector<std::string> damage(size_t(pictures), "");
    parallel_for(pictures, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) try {
          count[size_t(i)] = int64_t(by_area(pictures_.map(i), least_area_).size());
        } catch (const UnreadableFile&) {
          throw;
        } catch (const Error& error) {
          damage[size_t(i)] = error.what();
        }
    });
    std::vector<Object> objects;
    for (int64_t i = 0; i < pictures; ++i) {
      if (!damage[size_t(i)].empty() && !skip_bad) throw Error(damage[size_t(i)]);
      damaged_ += !damage[size_t(i)].empty();
      const int64_t all = count[size_t(i)], most = pictures_.most_a_picture;
      for (int64_t rank = 0; rank < (most > 0 ? std::min(all, most) : all); ++rank)
        objects.push_back({i, rank});
    }
    return objects;
  }

  SegmentationSample load(int64_t i) const {
    const std::string& path = pictures_.pictures[size_t(object(i).picture)].image;
    const std::vector<uint8_t> bytes = read_bytes(path);
    SegmentationSample sample{is_bmp(bytes) ? decode_bmp(bytes, path) : decode_stored(bytes, path, decoding_),
                              labels(i)};
    check_same_size(sample.image, path, sample.labels, label_file(i));
    return sample;
  }

  const ObjectPictures pictures_;
  const Decoding decoding_;
  const int64_t least_area_;
  int64_t damaged_ = 0;  // masks that could not be read
  const std::vector<Object> objects_;
  const std::vector<int64_t> numbers_;  // indices of the objects in use
  DecodedFiles<SegmentationSample> decoded_;
};

}  // namespace

ObjectPictures pictures_of(const SegmentationDataset& set) {
  ObjectPictures pictures{.split = set.split(), .incomplete = set.skipped()};
  for (int64_t i = 0; i < set.size(); ++i) pictures.pictures.push_back({set.name(i), set.label_file(i)});
  return pictures;
}

std::unique_ptr<SegmentationDataset> open_object_pictures(ObjectPictures pictures, const std::string& path,
                                                          const ObjectOptions& options) {
  return std::make_unique<ObjectFiles>(std::move(pictures), path, options);
}

const LabelKey& object_key() {
  static const LabelKey key({{"background", Rgb{0, 0, 0}}, {"object", Rgb{128, 0, 0}}}, where);
  return key;
}

}  // namespace pursuit::data

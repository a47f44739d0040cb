#include "data/dataset.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <sstream>
#include <utility>

#include "data/resize.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/files/atomic_file.h"

namespace pursuit::data {
namespace {

// A subset of another data set.
class Subset : public Dataset {
 public:
  Subset(std::unique_ptr<Dataset> whole, std::vector<int64_t> numbers)
      : whole_(std::move(whole)), numbers_(std::move(numbers)) {}
  int64_t size() const override { return int64_t(numbers_.size()); }
  Sample get(int64_t i) const override {
    return sound(i, [&](int64_t number) { return whole_->get(number); });
  }
  Sample get_part(int64_t i, const ChoosePart& choose) const override {
    return sound(i, [&](int64_t number) { return whole_->get_part(number, choose); });
  }
  int64_t label(int64_t i) const override { return whole_->label(numbers_.at(size_t(i))); }
  std::string name(int64_t i) const override { return whole_->name(numbers_.at(size_t(i))); }
  std::optional<SampleId> id(int64_t i) const override { return whole_->id(numbers_.at(size_t(i))); }
  const std::vector<std::string>& classes() const override { return whole_->classes(); }
  int64_t skipped() const override { return whole_->skipped(); }
  std::vector<int64_t> present_classes() const override { return whole_->present_classes(); }
  std::string test_split() const override { return whole_->test_split(); }

 private:
  // Sample i, or the subset's next one if it is damaged: what the whole set gives in its place may be of
  // another subset, such as the one held out for validation.
  template <class Get> Sample sound(int64_t i, const Get& get) const {
    for (int64_t step = 0; step < size(); ++step) {
      Sample sample = get(numbers_.at(size_t((i + step) % size())));
      if (sample.index < 0) continue;
      if (step > 0) sample.index = -1;
      return sample;
    }
    fail("dataset", "none of the " + std::to_string(size()) + " pictures can be read");
  }

  const std::unique_ptr<Dataset> whole_;
  const std::vector<int64_t> numbers_;
};

}  // namespace

Sample Dataset::get_part(int64_t i, const ChoosePart& choose) const {
  Sample sample = get(i);
  sample.image = part_of(sample.image, choose);
  return sample;
}

std::vector<int64_t> Dataset::present_classes() const {
  std::vector<int64_t> all(classes().size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<int64_t> samples_in_use(int64_t size, int64_t first, int64_t limit) {
  for (const auto& [name, value] : {std::pair{"first", first}, {"limit", limit}})
    if (value < 0)
      fail("dataset",
           std::string(name) + " is negative: got " + std::to_string(value) + ", need 0 (all) or more");
  const int64_t among = first > 0 ? std::min(first, size) : size;
  std::vector<int64_t> numbers(size_t(limit > 0 ? std::min(limit, among) : among));
  // Evenly spaced, so that a data set sorted by class stays balanced.
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = int64_t(i) * among / int64_t(numbers.size());
  return numbers;
}

std::unique_ptr<Dataset> open_dataset(const std::string& path, Split split, const DatasetOptions& options) {
  const DatasetFormats::Found found = DatasetFormats::find("dataset", path, options.format);
  const std::string format = found.format.name;
  if (format != "cifar10" && !(options.train_files.empty() && options.test_files.empty()))
    fail("dataset", "files can be chosen for each split only in a cifar10 folder: got format " + format);
  auto dataset = found.format.open(found.folder, split, options);
  std::vector<int64_t> numbers = samples_in_use(dataset->size(), options.first, options.limit);
  if (int64_t(numbers.size()) == dataset->size()) return dataset;
  return subset(std::move(dataset), std::move(numbers));
}

std::unique_ptr<Dataset> part_of_training(std::unique_ptr<Dataset> training, Split split, int64_t count) {
  const int64_t size = training->size();
  if (count < 1 || count >= size)
    fail("dataset", "cannot hold out " + std::to_string(count) + " of " + std::to_string(size) +
                        " training samples; need 1 to one less than all");
  const std::vector<int64_t> held_out = samples_in_use(size, 0, count);
  if (split == Split::val) return subset(std::move(training), held_out);
  std::vector<int64_t> rest;
  for (int64_t i = 0; i < size; ++i)
    if (!std::binary_search(held_out.begin(), held_out.end(), i)) rest.push_back(i);
  return subset(std::move(training), std::move(rest));
}

std::unique_ptr<Dataset> subset(std::unique_ptr<Dataset> whole, std::vector<int64_t> numbers) {
  return std::make_unique<Subset>(std::move(whole), std::move(numbers));
}

}  // namespace pursuit::data

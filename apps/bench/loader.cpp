#include "apps/bench/loader.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "apps/bench/temporary_folder.h"
#include "apps/command/options.h"
#include "apps/run/json.h"
#include "apps/terminal/print.h"
#include "apps/terminal/table.h"
#include "data/augment.h"
#include "data/jpeg_turbo.h"
#include "data/loader.h"
#include "data/rand_augment.h"
#include "data/resize.h"
#include "data/shards.h"
#include "engine/base/error.h"

namespace pursuit::bench {

namespace {

using Clock = std::chrono::steady_clock;
using data::Decoder, data::Image, data::Part;

struct Options {
  std::string data;
  int threads = 2, size = 224;
  double seconds = 2;
  bool json = false;
};

// A data set again and again, so that an epoch does not end.
class Repeated : public data::Dataset {
 public:
  explicit Repeated(const data::Dataset& set) : set_(set) {}
  int64_t size() const override { return 1 << 20; }
  data::Sample get(int64_t i) const override { return set_.get(i % set_.size()); }
  data::Sample get_part(int64_t i, const data::ChoosePart& choose) const override {
    return set_.get_part(i % set_.size(), choose);
  }
  int64_t label(int64_t i) const override { return set_.label(i % set_.size()); }
  std::string name(int64_t i) const override { return set_.name(i % set_.size()); }
  const std::vector<std::string>& classes() const override { return set_.classes(); }

 private:
  const data::Dataset& set_;
};

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

// Calls of work(i, random) a second, in several threads.
double rate_of(const Options& o, const std::function<void(int64_t i, Random& random)>& work) {
  std::atomic<int64_t> next = 0;
  const Clock::time_point start = Clock::now();
  std::vector<std::thread> threads;
  std::exception_ptr error;
  std::mutex mutex;
  for (int t = 0; t < o.threads; ++t)
    threads.emplace_back([&] {
      try {
        while (seconds_since(start) < o.seconds) {
          const int64_t i = next++;
          Random random(1, uint64_t(i));
          work(i, random);
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        error = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
  return double(next) / seconds_since(start);
}

Part draw(const Options& o, int width, int height, Random& random) {
  return {data::draw_crop(width, height, random), o.size, o.size};
}

// Pictures a second of a loader: random resized crop and flip, 8-bit planes.
double rate_of_loader(const Options& o, const data::Dataset& set) {
  const data::Transform transform = [&](data::Sample sample, Random& random, std::span<uint8_t> chw) {
    Image image = data::resize(data::to_rgb(std::move(sample.image)), o.size, o.size, data::Filter::bicubic);
    data::to_planes(data::random_flip(std::move(image), random), chw);
  };
  data::LoaderOptions options;
  options.batch_size = 64;
  options.height = options.width = o.size;
  options.shuffle = true;
  options.threads = o.threads;
  options.part = [&](int width, int height, Random& random) { return draw(o, width, height, random); };
  const Repeated repeated(set);
  data::Loader loader(repeated, transform, options);
  loader.start(0);
  data::Batch batch;
  int64_t pictures = 0;
  loader.next(batch);  // the threads have started
  const Clock::time_point start = Clock::now();
  while (seconds_since(start) < o.seconds && loader.next(batch)) pictures += batch.size;
  return double(pictures) / seconds_since(start);
}

struct Rate {
  std::string stage, what;
  double pictures_per_second;
};

std::vector<Rate> measure(const Options& o) {
  std::vector<Rate> rates;
  const auto add = [&](const std::string& stage, const std::string& what, double rate) {
    if (!o.json) apps::note("{} {} ...\n", stage, what);
    rates.push_back({stage, what, rate});
  };
  data::DatasetOptions open{.format = "folder"};
  const int64_t most = 512;  // they are decoded in memory, and packed
  open.limit = std::min(most, data::open_dataset(o.data, data::Split::test, open)->size());
  const auto set = data::open_dataset(o.data, data::Split::test, open);
  const size_t count = size_t(set->size());
  std::vector<std::vector<uint8_t>> files;
  std::vector<Image> pictures, views;
  for (size_t i = 0; i < count; ++i) {
    files.push_back(data::read_bytes(set->name(int64_t(i))));
    pictures.push_back(data::decode_image(files[i].data(), files[i].size(), set->name(int64_t(i))));
    views.push_back(data::imagenet_view(pictures[i], o.size, data::Filter::bicubic));
  }
  const auto decode = [&](int64_t i, const data::Decoding& decoding, const data::ChoosePart& choose) {
    const auto& file = files[size_t(i) % count];
    choose ? data::decode_part(file.data(), file.size(), "file", decoding, choose)
           : data::decode_image(file.data(), file.size(), "file", decoding);
  };
  const auto decode_rate = [&](const data::Decoding& decoding, bool part) {
    return rate_of(o, [&](int64_t i, Random& random) {
      const auto choose = [&](int width, int height) { return draw(o, width, height, random); };
      part ? decode(i, decoding, choose) : decode(i, decoding, {});
    });
  };
  add("read", "files",
      rate_of(o, [&](int64_t i, Random&) { data::read_bytes(set->name(i % int64_t(count))); }));
  add("decode", "stb", decode_rate({Decoder::stb}, false));
  if (data::has_turbo()) {
    add("decode", "turbo", decode_rate({Decoder::turbo}, false));
    add("decode", "turbo, the crop", decode_rate({Decoder::turbo}, true));
    add("decode", "turbo, the crop, scaled", decode_rate({Decoder::turbo, true}, true));
  }
  add("crop", "random resized crop", rate_of(o, [&](int64_t i, Random& random) {
        data::random_resized_crop(pictures[size_t(i) % count], o.size, random);
      }));
  std::vector<uint8_t> planes(size_t(3 * o.size * o.size));
  add("augment", "flip and planes", rate_of(o, [&](int64_t i, Random& random) {
        thread_local std::vector<uint8_t> chw;
        chw.resize(planes.size());
        data::to_planes(data::random_flip(views[size_t(i) % count], random), chw);
      }));
  add("augment", "RandAugment",
      rate_of(o, [&](int64_t i, Random& random) { data::rand_augment(views[size_t(i) % count], random); }));

  add("loader", "files, stb", rate_of_loader(o, *set));
  if (data::has_turbo()) {
    open.decoding = {Decoder::turbo, true};
    add("loader", "files, turbo, scaled",
        rate_of_loader(o, *data::open_dataset(o.data, data::Split::test, open)));
  }
  for (const data::Packing packing : {data::Packing::files, data::Packing::raw}) {
    const TemporaryFolder folder;
    data::PackOptions pack{.packing = packing, .root = o.data, .source = "bench"};
    data::pack(*set, data::Split::test, folder.path().string(), pack);
    const bool turbo = data::has_turbo() && packing == data::Packing::files;
    data::DatasetOptions shards{.format = "shards"};
    if (turbo) shards.decoding = {Decoder::turbo, true};
    add("loader", fmt::format("shards, {}{}", choice_name(packing), turbo ? ", turbo, scaled" : ""),
        rate_of_loader(o, *data::open_dataset(folder.path().string(), data::Split::test, shards)));
  }
  return rates;
}

void run(const Options& o) {
  const std::vector<Rate> rates = measure(o);
  apps::Table table{{"stage", "of what", "pictures/s"}, {}};
  for (const Rate& r : rates) {
    if (o.json)
      apps::print("{}\n", nlohmann::ordered_json{{"stage", r.stage},
                                                 {"what", r.what},
                                                 {"threads", o.threads},
                                                 {"pictures_per_s", r.pictures_per_second}}
                              .dump());
    table.rows.push_back({r.stage, r.what, fmt::format("{:.0f}", r.pictures_per_second)});
  }
  if (!o.json)
    apps::print("{}\n{} threads, {} pixels\n", apps::Lines{apps::to_text(table)}, o.threads, o.size);
}

}  // namespace

void add_loader_command(CLI::App& app) {
  const auto o = std::make_shared<Options>();
  CLI::App* loader = app.add_subcommand(
      "loader",
      "Times reading, decoding, cropping and augmenting pictures, and whole loaders from files and shards. "
      "tools/bench/loader sets the figures against PyTorch's DataLoader.");
  loader->add_option("--data", o->data, "Folder with val/<class>/*.jpg")->required();
  apps::add_number(*loader, "--threads", o->threads, "Number of threads", apps::Range{1, 1024});
  apps::add_number(*loader, "--size", o->size, "Side of the crops in pixels", apps::Range{1, 4096});
  apps::add_number(*loader, "--seconds", o->seconds, "Seconds that every stage is timed",
                   apps::Range{0.01, 1e4});
  loader->add_flag("--json", o->json, "Print JSON, one object a line");
  loader->callback([o] { run(*o); });
}

}  // namespace pursuit::bench

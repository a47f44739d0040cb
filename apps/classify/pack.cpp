#include <fmt/format.h>

#include <filesystem>

#include "apps/classify/commands.h"
#include "apps/terminal/print.h"
#include "apps/terminal/progress.h"
#include "apps/terminal/signals.h"
#include "data/class_names.h"
#include "data/fingerprint.h"
#include "engine/files/atomic_file.h"

namespace pursuit::classify {

namespace {

namespace fs = std::filesystem;

// Shards beside the files that they are made of would be a folder of two formats.
void check_outside(const std::string& out, const std::string& data) {
  const auto place = [](const std::string& path) { return fs::weakly_canonical(fs::absolute(path)); };
  const fs::path below = place(out).lexically_relative(place(data));
  if (!below.empty() && *below.begin() != "..")
    fail("pack", "--out " + out + " lies in --data " + data + "; give a folder beside it");
}

// Words for classes, which reports show.
void copy_class_names(const std::string& data, const std::string& out) {
  const std::string list = data::class_name_list(data);
  if (list.empty()) return;
  const std::string text = InputFile(list).read_all();
  AtomicFile copy((fs::path(out) / fs::path(list).filename()).string());
  copy.write(text.data(), text.size());
  copy.commit();
}

}  // namespace

int pack(const PackOptions& o) {
  if (o.data.empty()) fail("pack", "--data is missing: what is drawn need not be packed");
  if (o.shorter && o.packing == data::Packing::files)
    fail("pack", "--shorter has no effect with --packing files, which keeps the files as they are");
  check_outside(o.out, o.data);
  data::DatasetOptions open;
  open.format = o.format;
  open.skip_bad = o.skip_bad;
  struct Part {
    data::Split split;
    std::unique_ptr<data::Dataset> set;
    data::PackOptions options;
  };
  std::vector<Part> parts;
  for (const data::Split split : {data::Split::train, data::Split::test}) {
    auto set = data::open_dataset(o.data, split, open);
    if (split == data::Split::train) open.classes = set->classes();
    data::PackOptions options{.packing = o.packing,
                              .shorter = o.shorter.value_or(256),
                              .shard_bytes = o.shard_mib << 20,
                              .root = o.data,
                              .source = data::fingerprint(*set, o.data)};
    parts.push_back({split, std::move(set), std::move(options)});
  }
  const LockedFile lock = data::lock_shards(o.out);
  for (const Part& part : parts) data::check_shards(o.out, part.split, *part.set, part.options);
  apps::catch_stop_signals("batch of pictures");
  for (Part& part : parts) {
    apps::Progress bar(part.split == data::Split::train ? "train" : "test", 0, part.set->size());
    int64_t before = 0;
    part.options.tick = [&](int64_t done) {
      bar.update(done, done - before);
      before = done;
    };
    part.options.stop = [] { return apps::stop_requested(); };
    const data::Packed packed = data::pack(*part.set, part.split, o.out, part.options);
    bar.finish();
    if (!packed.complete) {
      apps::note("stopped after {} whole shards; the same command goes on\n", packed.shards);
      return 1;
    }
    apps::print(
        "{}: {} pictures in {} shards{}{}\n", choice_name(part.split), packed.pictures, packed.shards,
        packed.kept ? fmt::format(", {} of them there before", packed.kept) : std::string(),
        packed.left_out ? fmt::format("; {} damaged pictures left out", packed.left_out) : std::string());
  }
  copy_class_names(o.data, o.out);
  apps::print("train on them with --data {}\n", o.out);
  return 0;
}

}  // namespace pursuit::classify

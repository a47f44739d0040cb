#include <fmt/format.h>

#include "apps/classify/commands.h"
#include "apps/terminal/print.h"
#include "apps/terminal/progress.h"
#include "apps/terminal/signals.h"
#include "data/fingerprint.h"

namespace pursuit::classify {

int pack(const PackOptions& o) {
  if (o.data.empty()) fail("pack", "--data is missing: what is drawn need not be packed");
  data::DatasetOptions open;
  open.format = o.format;
  open.skip_bad = o.skip_bad;
  apps::catch_stop_signals("picture");
  for (const data::Split split : {data::Split::train, data::Split::test}) {
    const auto set = data::open_dataset(o.data, split, open);
    if (split == data::Split::train) open.classes = set->classes();
    apps::Progress bar(split == data::Split::train ? "train" : "test", 0, set->size());
    data::PackOptions options{.packing = o.packing,
                              .shorter = o.shorter,
                              .shard_bytes = o.shard_mib << 20,
                              .root = o.data,
                              .source = data::fingerprint(*set, o.data)};
    int64_t before = 0;
    options.tick = [&](int64_t done) {
      bar.update(done, done - before);
      before = done;
    };
    options.stop = [] { return apps::stop_requested(); };
    const data::Packed packed = data::pack(*set, split, o.out, options);
    bar.finish();
    if (!packed.complete) {
      apps::note("stopped after {} whole shards; the same command goes on\n", packed.shards);
      return 1;
    }
    apps::print(
        "{}: {} pictures in {} shards{}{}\n", choice_name(split), packed.pictures, packed.shards,
        packed.kept ? fmt::format(", {} of them there before", packed.kept) : std::string(),
        packed.left_out ? fmt::format("; {} damaged pictures left out", packed.left_out) : std::string());
  }
  apps::print("train on them with --data {}\n", o.out);
  return 0;
}

}  // namespace pursuit::classify

#pragma once
#include <string>

#include "apps/run/evaluations.h"
#include "apps/run/json.h"
#include "apps/training/fields.h"

// What a run and its results were made with.
namespace pursuit::apps {

// Of the sources that this program was built from, "3d9d05f0a1b2" or "3d9d05f0a1b2-dirty"; "unknown" without
// git. In a file that the build generates.
extern const char* const build_commit;

// {"version", "commit", "processor", "device", "threads"} of this program on this machine.
nlohmann::ordered_json provenance(const std::string& device);

// Of results that this program measures, as far as data and samples do not say it: with `weights` (raw or
// ema) of a step of a run.
Conditions conditions(const TrainingFields& fields, const std::string& weights, int64_t step,
                      const std::string& run);

// Writes a run's config.json: the config and beside it "made-by", a list of what provenance() said, with the
// app, from a step "from" on. Going on with a run (step > 0) adds to the list that is there, if it is another
// program or machine. A run's "id" (see run_id) is drawn when it begins. Checkpoints have the config alone,
// so that those of equal runs hold equal bytes.
void write_config(const std::string& folder, nlohmann::ordered_json config, const std::string& app,
                  const std::string& device, int64_t step = 0);

}  // namespace pursuit::apps

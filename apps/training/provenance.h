#pragma once
#include <string>

#include "apps/run/evaluations.h"
#include "apps/run/json.h"
#include "apps/training/fields.h"

// The program and machine that made a run and its results.
namespace pursuit::apps {

// The commit this program was built from: "3d9d05f0a1b2" or "3d9d05f0a1b2-dirty"; "unknown" without git. The
// build generates the file that defines it.
extern const char* const build_commit;

// {"version", "commit", "processor", "device", "threads"} of this program on this machine.
nlohmann::ordered_json provenance(const std::string& device);

// The conditions of a measurement with the `weights` (raw or ema) of a run's step, except data and samples.
Conditions conditions(const TrainingFields& fields, const std::string& weights, int64_t step,
                      const std::string& run);

// Writes a run's config.json: the config, the run's "id" (see run_id), which is drawn when the run starts,
// and "made-by", a list of provenance() with the app and the step "from" which it holds. Resuming (step > 0)
// adds an entry if program or machine have changed. Checkpoints hold only the config, so that equal runs have
// equal checkpoints.
void write_config(const std::string& folder, nlohmann::ordered_json config, const std::string& app,
                  const std::string& device, int64_t step = 0);

}  // namespace pursuit::apps

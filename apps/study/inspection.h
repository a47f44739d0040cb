#pragma once
#include <string>
#include <utility>
#include <vector>

#include "apps/page/report.h"
#include "apps/run/evaluations.h"
#include "apps/run/json.h"
#include "apps/run/run_folder.h"
#include "apps/study/run_page.h"
#include "apps/terminal/table.h"
#include "apps/training/inspections.h"
#include "data/image.h"
#include "nn/inspection.h"

// What `inspect` measures of a model's attention (nn/inspection.h), the same for all apps: as tables, as JSON, in
// reports and as metrics of training.
namespace pursuit::apps {

// Of `inspect` of an app on pictures: inspect.json, and beside it the film strip inspect.png if a layer
// iterates.
struct Inspection {
  Conditions conditions;  // `count` is the number of samples, pictures or windows
  std::vector<nn::LayerMeasures> layers;
};

nlohmann::ordered_json to_json(const Inspection& inspection);

// Tables with their headings; those without rows are left out.
std::vector<std::pair<std::string, Table>> to_tables(const std::vector<nn::LayerMeasures>& layers);
// The tables and the notes.
void print(const std::vector<nn::LayerMeasures>& layers);
// Tables, spectra over the layers, eigenvalues in the complex plane, singular values of the pursuit.
void add_layers(Report& report, const std::vector<nn::LayerMeasures>& layers, const std::string& measured_on);

std::string inspection_path(const std::string& folder);  // of inspect.json
std::string film_path(const std::string& folder);        // of inspect.png
// Writes inspect.json, and the film strip if there is one, in place of older ones. Throws Error if another run has
// started in the folder since the inspected weights, of the run with the id `run`, were loaded.
void write_inspection(const std::string& folder, const std::string& run,
                      const nlohmann::ordered_json& inspection, const data::Image& film = {});

// Of what --inspect-every measures in training.
std::vector<Curve> inspection_curves();

// Adds to a run's page what its folder holds: inspect.json, inspect.png, and the eigenvalues in
// inspections.jsonl. An app whose inspect.json is its own leaves out the first.
void show_inspections(RunFolder& run, RunPage& page, bool with_inspection = true);

}  // namespace pursuit::apps

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "apps/command/command_line.h"
#include "engine/core/observer.h"
#include "engine/program/program.h"
#include "tests/goldens/cases.h"

// goldens DIR|FILE...: holds the engine against cases that were computed elsewhere.
using namespace pursuit;
using namespace pursuit::goldens;

namespace {

const std::map<std::string, void (*)(Golden&)> cases = {
    {"rpc_attention", rpc_attention_case},
    {"attention", attention_case},
    {"clipped_softmax", clipped_softmax_case},
    {"clipped_attention", clipped_attention_case},
    {"gated_attention", gated_attention_case},
    {"scaled_attention", scaled_attention_case},
    {"svt", svt_case},
    {"pcp", pcp_case},
    {"vit", vit_case},
    {"lenet", lenet_case},
    {"resnet18", resnet18_case},
    {"resnet50", resnet50_case},
    {"fan", fan_case},
    {"layernorm", layernorm_case},
    {"batch_norm", batch_norm_case},
    {"group_norm", group_norm_case},
    {"instance_norm", instance_norm_case},
    {"rms_norm", rms_norm_case},
    {"conv2d", conv2d_case},
    {"max_pool2d", max_pool2d_case},
    {"avg_pool2d", avg_pool2d_case},
    {"gelu", gelu_case},
    {"elementwise", elementwise_case},
    {"along", along_case},
    {"compared", compared_case},
    {"cross_entropy", cross_entropy_case},
    {"embedding", embedding_case},
    {"patchify", patchify_case},
    {"adaptive_softmax", adaptive_softmax_case},
    {"bilinear", bilinear_case},
    {"miou", miou_case},
};

// Cases whose gradients the case function compares by itself, or that have none.
bool has_own_gradients(const std::string& name) {
  return name == "vit" || name == "lenet" || name == "resnet18" || name == "resnet50" || name == "fan";
}

// Runs the file's case; what it cannot compute ends in an exception.
void run_case(Golden& g) {
  const std::string& name = g.word("case");
  const auto found = cases.find(name);
  if (found == cases.end()) fail("goldens", "unknown case '" + name + "'");
  found->second(g);
  if (!has_own_gradients(name)) g.backward();
}

Golden::Verdict run_f64(const std::string& path, Device device) {
  Golden g(path, device, DType::f64);
  run_case(g);
  return g.verdict();
}

// The error caused by storing with reduced precision, without the error of arithmetic: the distance between
// the case in f64 and a twin, in which every stored tensor, including those of the file, is rounded. A single
// rounding may have a small error by chance, especially where the last bits decide on which side of a
// threshold an entry is. So this is the maximum over `twins` runs, each with a different grid.
std::map<std::string, double> twin_errors(const std::string& path, const Golden& exact, DType dtype,
                                          int twins) {
  std::map<std::string, double> largest;
  for (int k = 0; k < twins; ++k) {
    const Rounding rounding{digits_of(dtype), 1 + double(k) / twins};
    Golden g(path, cpu, DType::f64);
    g.round_given(rounding);
    const Observer rounds([=](const Tensor& t) {
      if (t.dtype() == DType::f64) round_stored(t, rounding);
    });
    run_case(g);
    for (const auto& [what, values] : g.computed())
      largest[what] = std::max(largest[what], distance(values, exact.computed().at(what), dtype));
  }
  return largest;
}

// The engine in f64 must agree with the file; what another dtype may be off follows from it.
Golden::Verdict run_against(const std::string& path, Device device, DType dtype) {
  Golden exact(path, cpu, DType::f64);
  run_case(exact);
  if (!exact.verdict().failures.empty()) {
    Golden::Verdict verdict = exact.verdict();
    for (std::string& failure : verdict.failures) failure = "in f64: " + failure;
    return verdict;
  }
  Golden same_input(path, cpu, DType::f64);
  same_input.round_given({digits_of(dtype), 1});
  run_case(same_input);
  // The bar is that of 64 twins. It has those of fewer among its grids, and so a run that passes with them
  // passes.
  Golden::Verdict verdict;
  for (const int twins : {0, 8, 64}) {
    Golden g(path, device, dtype);
    g.hold_against(exact.computed(), same_input.computed(), twin_errors(path, exact, dtype, twins));
    run_case(g);
    verdict = g.verdict();
    if (verdict.failures.empty()) break;
  }
  return verdict;
}

bool run_file(const std::string& path, Device device, DType dtype, bool verbose) {
  const std::string shown = std::filesystem::path(path).filename().string();
  std::string name = "?";
  Golden::Verdict verdict;
  try {
    name = Golden(path, device, dtype).word("case");
    verdict = dtype == DType::f64 ? run_f64(path, device) : run_against(path, device, dtype);
    if (verdict.failures.empty() && verdict.compared == 0) verdict.failures.push_back("nothing was compared");
  } catch (const std::exception& e) {
    verdict.failures.push_back(e.what());
  }
  const bool ok = verdict.failures.empty();
  std::printf("%-44s %-18s worst %6.3f %-26s %s\n", shown.c_str(), name.c_str(), verdict.worst,
              verdict.worst_name.empty() ? "" : ("(" + verdict.worst_name + ")").c_str(),
              ok ? "ok" : "FAILED");
  for (const std::string& f : verdict.failures) std::printf("    %s\n", f.c_str());
  if (verbose)
    for (const std::string& l : verdict.lines) std::printf("    %s\n", l.c_str());
  std::fflush(stdout);
  return ok;
}

std::vector<std::string> files_of(const std::vector<std::string>& paths, int& failed) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& p : paths) {
    std::error_code error;
    if (!fs::is_directory(p, error)) {
      files.push_back(p);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& entry : fs::directory_iterator(p))
      if (entry.path().extension() == ".safetensors") inside.push_back(entry.path().string());
    if (inside.empty()) {
      std::printf("%s: no .safetensors file in this folder\n", p.c_str());
      ++failed;
    }
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

int run(const std::vector<std::string>& args) {
  std::vector<std::string> paths;
  std::string device_name = "cpu", dtype_name = "f32";
  bool verbose = false;
  CLI::App app{"Holds the engine against golden files (safetensors), chosen by their attribute 'case'"};
  app.name("goldens");
  app.add_option("path", paths, "folders of .safetensors files, or files")->required();
  app.add_option("--device", device_name, "cpu, cuda, cuda:1 ... or auto")->capture_default_str();
  app.add_option("--dtype", dtype_name, "f32, bf16 or f64")
      ->check(CLI::IsMember({"f32", "bf16", "f64"}))
      ->capture_default_str();
  app.add_flag("--verbose", verbose, "every comparison");
  int code = 0;
  app.callback([&] {
    int passed = 0, failed = 0;
    const Device device = device_from_name(device_name);
    const DType dtype = dtype_from_name(dtype_name);
    for (const std::string& f : files_of(paths, failed))
      ++(run_file(f, device, dtype, verbose) ? passed : failed);
    std::printf("%d passed, %d failed\n", passed, failed);
    code = failed || !passed ? 1 : 0;
  });
  const int parsed = apps::parse(app, args);
  return parsed ? parsed : code;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }

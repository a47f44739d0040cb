#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "engine/program.h"
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
    {"layernorm", layernorm_case},
    {"gelu", gelu_case},
    {"cross_entropy", cross_entropy_case},
    {"embedding", embedding_case},
    {"patchify", patchify_case},
    {"adaptive_softmax", adaptive_softmax_case},
    {"bilinear", bilinear_case},
    {"miou", miou_case},
};

// Cases whose gradients the case function compares by itself, or that have none.
bool has_own_gradients(const std::string& name) { return name == "vit"; }

bool run_file(const std::string& path, Device device, DType dtype, bool verbose) {
  const std::string shown = std::filesystem::path(path).filename().string();
  std::string name = "?";
  Golden::Verdict verdict;
  try {
    Golden g(path, device, dtype);
    name = g.word("case");
    const auto found = cases.find(name);
    if (found == cases.end()) fail("goldens", "unknown case '" + name + "'");
    try {
      found->second(g);
      if (!has_own_gradients(name)) g.backward();
      verdict = g.verdict();
    } catch (const std::exception& e) {
      verdict = g.verdict();
      verdict.failures.push_back(e.what());
    }
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

int run_command(int argc, char** argv) {
  std::vector<std::string> paths;
  std::string device_name = "cpu", dtype_name = "f32";
  bool verbose = false;
  CLI::App app{"Holds the engine against golden files (safetensors), chosen by their attribute 'case'"};
  app.add_option("path", paths, "folders of .safetensors files, or files")->required();
  app.add_option("--device", device_name, "cpu, cuda, cuda:1 ... or auto")->capture_default_str();
  app.add_option("--dtype", dtype_name, "f32, bf16 or f64")
      ->check(CLI::IsMember({"f32", "bf16", "f64"}))
      ->capture_default_str();
  app.add_flag("--verbose", verbose, "every comparison");
  CLI11_PARSE(app, argc, argv);
  const Device device = device_from_name(device_name);
  const DType dtype = dtype_from_name(dtype_name);
  int passed = 0, failed = 0;
  for (const std::string& f : files_of(paths, failed))
    ++(run_file(f, device, dtype, verbose) ? passed : failed);
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed || !passed ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_main(argc, argv, [&](const auto&) { return run_command(argc, argv); });
}

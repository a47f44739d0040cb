#include "apps/study/tape_report.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "apps/study/run_commands.h"
#include "apps/terminal/print.h"
#include "apps/terminal/table.h"
#include "engine/files/atomic_file.h"
#include "engine/inspect/tape_graph.h"

extern char** environ;

namespace pursuit::apps {

namespace {

void write_text(const std::string& file, const std::string& text) {
  AtomicFile out(file);
  out.write(text.data(), text.size());
  out.commit();
}

// Runs `dot -Tsvg`; false if there is no such program.
bool draw_svg(const std::string& dot, const std::string& svg) {
  const std::string to = "-o" + svg;
  const char* arguments[] = {"dot", "-Tsvg", to.c_str(), dot.c_str(), nullptr};
  pid_t child = 0;
  if (posix_spawnp(&child, "dot", nullptr, nullptr, const_cast<char**>(arguments), environ) != 0)
    return false;
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) return false;
  if (status != 0) fail("inspect", "Graphviz could not draw '" + dot + "'; try: dot -Tsvg " + dot);
  return true;
}

void write_tape(const std::string& dot, const std::string& file) {
  if (file.ends_with(".dot")) {
    write_text(file, dot);
    return print("{}\n", file);
  }
  const std::string source = file + ".dot";  // x.svg.dot, as x.dot may be the user's
  prepare_output(source);
  write_text(source, dot);
  // Absolute paths cannot be mistaken for options.
  if (draw_svg(std::filesystem::absolute(source), std::filesystem::absolute(file))) {
    std::filesystem::remove(source);
    return print("{}\n", file);
  }
  print("{}\n", source);
  note("Graphviz is not installed: `apt-get install graphviz`, then `dot -Tsvg {} -o {}`\n", source, file);
}

}  // namespace

void report_tape(const std::function<Tensor()>& loss, const nn::Module& model, const std::string& file) {
  if (!file.empty()) {
    if (!file.ends_with(".svg") && !file.ends_with(".dot"))
      fail("inspect", "--tape is '" + file + "', need a name that ends with .svg or .dot");
    prepare_output(file);
  }
  loss().backward();
  std::vector<std::pair<std::string, Tensor>> leaves;
  for (const nn::NamedTensor& p : model.parameters()) leaves.emplace_back(p.name, *p.tensor);
  const TapeRecorder recorder;
  const Tensor y = loss();

  struct Sum {
    int64_t calls = 0, bytes = 0;
    double milliseconds = 0;
  };
  std::map<std::string, Sum> sums;
  Sum all;
  for (const TapeNode& n : tape_of(y, leaves)) {
    if (n.leaf) continue;
    for (Sum* s : {&sums[n.name], &all}) ++s->calls, s->bytes += n.bytes, s->milliseconds += n.milliseconds;
  }
  std::vector<std::pair<std::string, Sum>> rows(sums.begin(), sums.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  rows.emplace_back("all", all);
  Table table{{"operator", "calls", "ms", "MiB held for backward"}, {}};
  for (const auto& [name, s] : rows)
    table.rows.push_back({name, std::to_string(s.calls), fmt::format("{:.2f}", s.milliseconds),
                          fmt::format("{:.2f}", double(s.bytes) / (1 << 20))});
  print("{}", Lines{to_text(table)});
  if (!file.empty()) write_tape(tape_to_dot(y, leaves), file);
}

}  // namespace pursuit::apps

#include "engine/inspect/tape_graph.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <unordered_map>

namespace pursuit {

namespace {

using Clock = std::chrono::steady_clock;

struct Recorded {
  Tensor like;  // has the result's shape and dtype without its memory
  const char* tag;
  double milliseconds;
};

struct Call {
  const char* name;
  const char* tag;
  Clock::time_point start;
};

// State of the recording thread.
struct Recording {
  std::vector<Call> open;         // nested calls
  std::vector<const char*> tags;  // of all calls
  std::unordered_map<const Node*, Recorded> nodes;
};
thread_local Recording* recording = nullptr;

// A tag that is never freed: memory that outlives the recorder still refers to it.
const char* new_tag(const char* name) {
  static auto& tags = *new std::deque<std::string>;
  return tags.emplace_back(name + std::string(" #") + std::to_string(tags.size())).c_str();
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string mebibytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MiB", double(bytes) / (1 << 20));
  return text;
}

}  // namespace

TapeRecorder::TapeRecorder() {
  if (recording) fail("TapeRecorder", "this thread has one already");
  recording = new Recording;
  before_ = call_observer.exchange(this);
}
TapeRecorder::~TapeRecorder() {
  call_observer = before_;
  delete std::exchange(recording, nullptr);
}

const char* TapeRecorder::begin(const char* name, bool backward) {
  if (!recording) return name;
  // A nested call belongs to the outermost one.
  const char* tag = !recording->open.empty() ? recording->open.front().tag : backward ? name : new_tag(name);
  if (recording->open.empty() && !backward) recording->tags.push_back(tag);
  recording->open.push_back({name, tag, Clock::now()});
  return tag;
}

void TapeRecorder::end(const Tensor& result) noexcept {
  if (!recording || recording->open.empty()) return;
  const Call call = recording->open.back();
  recording->open.pop_back();
  if (!result.needs_grad()) return;
  const std::chrono::duration<double, std::milli> time = Clock::now() - call.start;
  recording->nodes[result.node().get()] = {
      Tensor({}, result.shape(), result.strides(), 0, result.dtype(), result.device()), call.tag,
      time.count()};
}

std::vector<TapeNode> tape_of(const Tensor& y, const std::vector<std::pair<std::string, Tensor>>& leaves) {
  require_defined("tape_of", {&y});
  if (!y.needs_grad())
    fail("tape_of", "a " + y.str() + " is not on the tape: nothing it was computed from requires a gradient");
  std::unordered_map<const Node*, const std::pair<std::string, Tensor>*> named;
  for (const auto& leaf : leaves)
    if (leaf.second.needs_grad()) named[leaf.second.node().get()] = &leaf;
  std::map<std::string, int64_t> bytes = memory_by_tag(y.device());

  std::vector<TapeNode> list;
  std::unordered_map<const Node*, size_t> place;
  std::vector<std::pair<const Node*, size_t>> stack{{y.node().get(), 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next < node->inputs.size()) {
      const Node* in = node->inputs[next++].get();
      if (in && !place.contains(in)) stack.push_back({in, 0});
      continue;
    }
    if (!place.contains(node)) {
      place[node] = list.size();
      TapeNode entry{.name = node->name, .leaf = node->leaf};
      for (const auto& in : node->inputs)
        if (in) entry.inputs.push_back(place.at(in.get()));
      if (const auto leaf = named.find(node); leaf != named.end()) {
        entry.name = leaf->second->first;
        entry.result = name_of(leaf->second->second.dtype()) + leaf->second->second.shape().str();
      }
      const auto seen = recording ? recording->nodes.find(node) : decltype(recording->nodes.end()){};
      if (recording && !node->leaf && seen != recording->nodes.end()) {
        entry.result = name_of(seen->second.like.dtype()) + seen->second.like.shape().str();
        entry.milliseconds = seen->second.milliseconds;
        entry.bytes = std::exchange(bytes[seen->second.tag], 0);  // count once if a call has several results
      }
      list.push_back(std::move(entry));
    }
    stack.pop_back();
  }
  // Made by calls that were not recorded but may be held by nodes: a normalised batch, for example.
  TapeNode others{.name = "off the tape", .result = "what other calls made"};
  if (recording)
    for (const char* tag : recording->tags) others.bytes += bytes[tag];
  if (others.bytes > 0) list.push_back(std::move(others));
  return list;
}

std::string tape_to_dot(const Tensor& y, const std::vector<std::pair<std::string, Tensor>>& leaves) {
  const std::vector<TapeNode> nodes = tape_of(y, leaves);
  int64_t most = 1, sum = 0;
  double time = 0;
  for (const TapeNode& n : nodes) {
    most = std::max(most, n.bytes);
    sum += n.bytes;
    time += n.milliseconds;
  }
  char text[160];
  std::snprintf(text, sizeof text, "%zu nodes, %.2f ms, %s held for backward", nodes.size(), time,
                mebibytes(sum).c_str());
  std::string dot = "digraph tape {\n  label=\"" + std::string(text) +
                    "\";\n  labelloc=t;\n  fontname=Helvetica;\n"
                    "  node [shape=box, style=filled, fillcolor=white, fontname=Helvetica, fontsize=10];\n";
  const auto is_inside = [](const TapeNode& n) { return n.leaf && !n.result.empty(); };  // a named leaf
  for (size_t i = 0; i < nodes.size(); ++i) {
    const TapeNode& n = nodes[i];
    if (is_inside(n)) continue;
    std::string label = escaped(n.name), edges;
    if (!n.result.empty()) label += "\\n" + n.result;
    for (const size_t in : n.inputs) {
      if (is_inside(nodes[in]))
        label += "\\n" + escaped(nodes[in].name) + " " + nodes[in].result;
      else
        edges += "  n" + std::to_string(in) + " -> n" + std::to_string(i) + ";\n";
    }
    if (!n.result.empty()) {
      std::snprintf(text, sizeof text, "\\n%.3f ms, ", n.milliseconds);
      label += text + mebibytes(n.bytes);
    }
    // The colour deepens with the bytes held.
    std::snprintf(text, sizeof text, "\", fillcolor=\"0.08 %.3f 1.0\"%s];\n", double(n.bytes) / double(most),
                  n.leaf ? ", shape=ellipse" : "");
    dot.append("  n").append(std::to_string(i)).append(" [label=\"").append(label).append(text).append(edges);
  }
  return dot + "}\n";
}

}  // namespace pursuit

#include "apps/bench/measured_times.h"

#include "apps/bench/measure.h"
#include "apps/run/files.h"
#include "apps/run/json.h"
#include "engine/base/error.h"

namespace pursuit::bench {

namespace {

using nlohmann::ordered_json;

ordered_json to_json(const StepTimes& t) {
  ordered_json gradients = ordered_json::array();
  for (const StepTimes::Gradient& g : t.gradients)
    gradients.push_back({{"parameter", g.name}, {"elements", g.elements}, {"ready_ms", g.ready}});
  return {{"forward_ms", t.forward},
          {"backward_ms", t.backward},
          {"update_ms", t.update},
          {"gradients", gradients}};
}

double time_in(const ordered_json& json, const char* key) {
  const double ms = json.at(key).get<double>();
  if (!(ms >= 0 && ms <= 1e9)) throw std::runtime_error(std::string(key) + " is no time");
  return ms;
}

StepTimes step_times(const ordered_json& json) {
  StepTimes t{time_in(json, "forward_ms"), time_in(json, "backward_ms"), time_in(json, "update_ms"), {}};
  for (const ordered_json& g : json.at("gradients")) {
    t.gradients.push_back(
        {g.at("parameter").get<std::string>(), g.at("elements").get<int64_t>(), time_in(g, "ready_ms")});
    const StepTimes::Gradient& last = t.gradients.back();
    if (last.ready > t.backward) throw std::runtime_error(last.name + " is ready after the backward pass");
    if (last.elements < 0 || last.elements > int64_t(1) << 40)
      throw std::runtime_error(last.name + " has no number of elements");
  }
  if (t.backward == 0 || t.gradients.empty()) throw std::runtime_error("a step without a backward pass");
  return t;
}

}  // namespace

StepTimes measure_times(const Workload& workload, DType dtype, Device device) {
  const Step step = workload.make(workload.batch, dtype, device);
  Protocol protocol;
  if (device.is_cuda()) protocol.wait = [device] { synchronize(device); };
  const double whole = measure(step.run, protocol).median_ms;

  constexpr int profiles = 5;
  StepTimes mean;
  for (int i = 0; i < profiles; ++i) {
    const StepTimes t = step.model->profile();
    const double share = whole / t.total() / profiles;
    mean.forward += share * t.forward;
    mean.backward += share * t.backward;
    mean.update += share * t.update;
    if (i == 0)
      for (const StepTimes::Gradient& g : t.gradients) mean.gradients.push_back({g.name, g.elements, 0});
    for (size_t g = 0; g < t.gradients.size(); ++g) mean.gradients[g].ready += share * t.gradients[g].ready;
  }
  return mean;
}

void write_times(const MeasuredTimes& times, const std::string& path) {
  ordered_json steps = ordered_json::object();
  for (const auto& [name, step] : times.steps) steps[name] = to_json(step);
  apps::write_file_atomically(path, ordered_json{{"device", times.device}, {"steps", steps}}.dump(1) + "\n");
}

MeasuredTimes read_times(const std::string& path) {
  try {
    const ordered_json json = ordered_json::parse(apps::read_file(path));
    MeasuredTimes times{json.at("device").get<std::string>(), {}};
    for (const auto& [name, step] : json.at("steps").items()) times.steps[name] = step_times(step);
    return times;
  } catch (const nlohmann::json::exception& e) {
    fail("ddp", path + " holds no times of steps (" + e.what() + "); `bench ddp --measure FILE` writes them");
  } catch (const std::runtime_error& e) {
    fail("ddp", path + ": " + e.what());
  }
}

}  // namespace pursuit::bench

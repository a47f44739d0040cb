#pragma once
#include <string>

namespace pursuit {

struct Device {
  enum class Kind : unsigned char { cpu, cuda };
  Kind kind = Kind::cpu;
  signed char index = 0;

  bool is_cuda() const { return kind == Kind::cuda; }
  bool operator==(const Device&) const = default;
  std::string name() const { return is_cuda() ? "cuda:" + std::to_string(index) : "cpu"; }
};

inline constexpr Device cpu{};
inline Device cuda_device(int index = 0) { return {Device::Kind::cuda, static_cast<signed char>(index)}; }

// Reads "cpu", "cuda", "cuda:1" or "auto" (a GPU if there is one, else the CPU).
// Throws if the device is not there, with the reason.
Device device_from_name(const std::string& name);
// The GPU that "cuda" and "auto" mean in this process, 0 without a call. Throws if it is not there.
void use_gpu(int index);

// Waits for all that was started on the device. On a CPU nothing ever is under way.
void synchronize(Device device);

// One line for the head of a log: which device runs and why, e.g. "cpu (built without CUDA), 2 threads,
// avx512".
std::string describe(Device device);

// Tags that choose a kernel's overload; `dispatch` turns a Device into one of them.
struct Cpu {
  static constexpr const char* name = "cpu";
};
struct Cuda {
  static constexpr const char* name = "cuda";
};

}  // namespace pursuit

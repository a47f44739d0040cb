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
// Throws with the reason if the device is not available.
Device device_from_name(const std::string& name);
// Selects the GPU that "cuda" and "auto" mean in this process (default 0). Throws if it does not exist.
void use_gpu(int index);

// Waits for all work that was launched on the device, as torch.cuda.synchronize does. A no-op on the CPU.
void synchronize(Device device);

// Tag types for overloads of kernels; `dispatch` maps a Device to one of them.
struct Cpu {
  static constexpr const char* name = "cpu";
};
struct Cuda {
  static constexpr const char* name = "cuda";
};

}  // namespace pursuit

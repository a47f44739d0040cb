#include "engine/cpu/rows.h"

#include <cstdlib>
#include <string>

#include "engine/base/error.h"
#include "engine/cpu/amx.h"

namespace pursuit {

namespace rows_f64 {
extern const RowKernels<double> kernels;
}
namespace rows_sse2 {
extern const RowKernels<float> kernels;
}
namespace rows_avx2 {
extern const RowKernels<float> kernels;
}
namespace rows_avx512 {
extern const RowKernels<float> kernels;
}

namespace {

struct Isa {
  const RowKernels<float>* kernels;
  bool supported;
};

// In order of preference.
struct IsaList {
  Isa isas[3];
  const Isa* begin() const { return isas; }
  const Isa* end() const { return isas + 3; }
};

IsaList isa_list() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return {{{&rows_avx512::kernels, avx512}, {&rows_avx2::kernels, avx2}, {&rows_sse2::kernels, true}}};
}

}  // namespace

bool isa_supported(const char* isa) {
  if (std::string(isa) == "amx") return amx_supported();
  for (const Isa& candidate : isa_list()) {
    if (candidate.supported && std::string(isa) == candidate.kernels->isa) return true;
  }
  return false;
}

const RowKernels<float>& choose_rows(const char* isa) {
  std::string wanted = isa ? isa : "", available;
  if (amx_supported()) {
    if (wanted == "amx") wanted = "avx512";
    available = "amx";
  }
  for (const Isa& candidate : isa_list()) {
    if (!candidate.supported) continue;
    if (wanted.empty() || wanted == candidate.kernels->isa) return *candidate.kernels;
    available += (available.empty() ? "" : ", ") + std::string(candidate.kernels->isa);
  }
  fail("cpu", "instruction set '" + wanted + "' cannot be used: got PURSUIT_ISA=" + wanted +
                  ", need one of " + available + " on this CPU; unset PURSUIT_ISA to take the best");
}

template <> const RowKernels<double>& rows<double>() { return rows_f64::kernels; }

template <> const RowKernels<float>& rows<float>() {
  static const RowKernels<float>& chosen = choose_rows(std::getenv("PURSUIT_ISA"));
  return chosen;
}

}  // namespace pursuit

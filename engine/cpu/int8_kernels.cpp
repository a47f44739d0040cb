#include "engine/cpu/int8_kernels.h"

#include <cpuid.h>

#include <string>

#include "engine/cpu/amx.h"
#include "engine/cpu/rows.h"

namespace pursuit {

namespace int8_sse2 {
extern const Int8Kernels kernels;
}
namespace int8_avx2 {
extern const Int8Kernels kernels;
}
namespace int8_avx_vnni {
extern const Int8Kernels kernels;
}
namespace int8_avx512 {
extern const Int8Kernels kernels;
}
namespace int8_avx512_vnni {
extern const Int8Kernels kernels;
}
namespace int8_amx {
extern const Int8Kernels kernels;
}

namespace {

// Leaf 7, subleaf 1, bit 4 of eax; not every compiler's __builtin_cpu_supports knows it.
bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return isa_supported("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

bool has_avx512_vnni() {
  __builtin_cpu_init();
  return isa_supported("avx512") && __builtin_cpu_supports("avx512vnni");
}

const Int8Kernels& best() {
  if (amx_chosen()) return int8_amx::kernels;
  const std::string isa = rows<float>().isa;
  if (isa == "avx512") return has_avx512_vnni() ? int8_avx512_vnni::kernels : int8_avx512::kernels;
  if (isa == "avx2") return has_avx_vnni() ? int8_avx_vnni::kernels : int8_avx2::kernels;
  return int8_sse2::kernels;
}

}  // namespace

const Int8Kernels& int8_kernels() {
  static const Int8Kernels& chosen = best();
  return chosen;
}

const Int8Kernels* int8_kernels_of(const char* isa) {
  const std::string name = isa;
  if (name == "amx") return amx_supported() ? &int8_amx::kernels : nullptr;
  if (name == "avx512_vnni") return has_avx512_vnni() ? &int8_avx512_vnni::kernels : nullptr;
  if (name == "avx_vnni") return has_avx_vnni() ? &int8_avx_vnni::kernels : nullptr;
  if (!isa_supported(isa)) return nullptr;
  return name == "avx512" ? &int8_avx512::kernels
         : name == "avx2" ? &int8_avx2::kernels
                          : &int8_sse2::kernels;
}

}  // namespace pursuit

#include "engine/cpu/amx.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace pursuit {

namespace {

// Leaf 7: AMX-BF16, AMX-TILE and AMX-INT8 in edx, and what products of few rows use: AVX-512 VNNI in ecx, and
// AVX-512 BF16 in eax of subleaf 1.
bool has_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0, unused = 0;
  if (!__get_cpuid_count(7, 0, &unused, &b, &c, &d) || !__get_cpuid_count(7, 1, &a, &b, &unused, &unused))
    return false;
  return (d >> 22 & 1) && (d >> 24 & 1) && (d >> 25 & 1) && (c >> 11 & 1) && (a >> 5 & 1);
}

// Linux saves 8 KiB of tiles a thread only for processes that have asked for them.
bool allowed() {
#ifdef __linux__
  constexpr long ask_for_state = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, ask_for_state, tile_data) == 0;
#else
  return false;
#endif
}

}  // namespace

bool amx_supported() {
  static const bool supported = has_tiles() && allowed();
  return supported;
}

bool amx_chosen() {
  static const bool chosen = [] {
    const char* const isa = std::getenv("PURSUIT_ISA");
    return (!isa || !*isa || std::string(isa) == "amx") && amx_supported();
  }();
  return chosen;
}

}  // namespace pursuit

#define PURSUIT_ISA_NAME "avx_vnni"
#define PURSUIT_ISA_NAMESPACE int8_avx_vnni
#include "engine/cpu/int8_isa.inc"

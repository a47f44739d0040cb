#define PURSUIT_ISA_NAME "avx512_vnni"
#define PURSUIT_ISA_NAMESPACE int8_avx512_vnni
#include "engine/cpu/int8_isa.inc"

#define PURSUIT_ISA_NAME "avx2"
#define PURSUIT_ISA_NAMESPACE int8_avx2
#include "engine/cpu/int8_isa.inc"

#define PURSUIT_ISA_NAME "avx512"
#define PURSUIT_ISA_NAMESPACE int8_avx512
#include "engine/cpu/int8_isa.inc"

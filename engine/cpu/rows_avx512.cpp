#define PURSUIT_ISA_NAME "avx512"
#define PURSUIT_ISA_NAMESPACE rows_avx512
#include "engine/cpu/rows_isa.inc"

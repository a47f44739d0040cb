#define PURSUIT_ISA_NAME "avx2"
#define PURSUIT_ISA_NAMESPACE rows_avx2
#include "engine/cpu/rows_isa.inc"

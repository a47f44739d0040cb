#define PURSUIT_ISA_NAME "sse2"
#define PURSUIT_ISA_NAMESPACE rows_sse2
#include "engine/cpu/rows_isa.inc"

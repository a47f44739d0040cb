#define PURSUIT_ISA_NAME "sse2"
#define PURSUIT_ISA_NAMESPACE int8_sse2
#include "engine/cpu/int8_isa.inc"

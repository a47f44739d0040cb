#define PURSUIT_ISA_NAME "amx"
#define PURSUIT_ISA_NAMESPACE int8_amx
#define PURSUIT_AMX
#include "engine/cpu/int8_isa.inc"

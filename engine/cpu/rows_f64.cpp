#define PURSUIT_ROWS_F64
#define PURSUIT_ISA_NAME "f64"
#define PURSUIT_ISA_NAMESPACE rows_f64
#include "engine/cpu/rows_isa.inc"

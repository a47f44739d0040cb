#define PURSUIT_ISA_NAMESPACE pictures_sse2
#include "data/kernels.inc"

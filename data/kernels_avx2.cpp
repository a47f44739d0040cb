#define PURSUIT_ISA_NAMESPACE pictures_avx2
#include "data/kernels.inc"

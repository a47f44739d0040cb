#define PURSUIT_ISA_NAMESPACE pictures_avx512
#include "data/kernels.inc"

#include "data/kernels.h"

#include "engine/cpu/rows.h"

namespace pursuit::data {

namespace pictures_sse2 {
extern const PictureKernels kernels;
}
namespace pictures_avx2 {
extern const PictureKernels kernels;
}
namespace pictures_avx512 {
extern const PictureKernels kernels;
}

const PictureKernels& picture_kernels(const std::string& isa) {
  return isa == "avx512" ? pictures_avx512::kernels
         : isa == "avx2" ? pictures_avx2::kernels
                         : pictures_sse2::kernels;
}

const PictureKernels& picture_kernels() {
  static const PictureKernels& chosen = picture_kernels(rows<float>().isa);
  return chosen;
}

}  // namespace pursuit::data

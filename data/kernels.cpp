#include "data/kernels.h"

#include <string>

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

const PictureKernels& picture_kernels() {
  static const PictureKernels& chosen = [isa = std::string(rows<float>().isa)]() -> const PictureKernels& {
    if (isa.starts_with("avx512")) return pictures_avx512::kernels;
    return isa == "avx2" ? pictures_avx2::kernels : pictures_sse2::kernels;
  }();
  return chosen;
}

}  // namespace pursuit::data

#pragma once
#include <vector>

#include "engine/operator/operator.h"

// Memory layouts in which the driver passes the same numbers, to find operators that ignore strides.
namespace pursuit::driver {

enum class Arrangement {
  contiguous,
  transposed,  // dimensions in reverse order
  sliced,      // the middle of a larger tensor, guard elements of NaN around it, odd offset
  broadcast,   // stride 0 along the first dimension larger than 1
};
inline constexpr Arrangement arrangements[] = {Arrangement::contiguous, Arrangement::transposed,
                                               Arrangement::sliced, Arrangement::broadcast};
const char* name_of(Arrangement a);

// Numbers for an input, contiguous on the CPU: rounded to `dtype` (f32 for a wide input under bf16) if
// floating, else i32. Under `broadcast` they repeat along the dimension that will have stride 0.
Tensor draw(const Input& input, Arrangement a, DType dtype, uint64_t stream);

// A tensor with the requested layout, and the memory that contains it.
class Arranged {
 public:
  // values: from draw().
  Arranged(const Tensor& values, Arrangement a, Device device);
  const Tensor& view() const { return view_; }
  bool touched() const;  // whether any byte of the memory, guard elements included, has changed since

 private:
  std::vector<char> bytes() const;

  Tensor base_, view_;
  std::vector<char> before_;
};

}  // namespace pursuit::driver

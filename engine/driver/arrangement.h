#pragma once
#include <vector>

#include "engine/operator/operator.h"

// How the driver lays the same numbers out in memory, to find operators that ignore strides.
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

// A tensor laid out as asked, and the memory it lies in.
class Arranged {
 public:
  // values: as draw() gives them.
  Arranged(const Tensor& values, Arrangement a, Device device);
  const Tensor& view() const { return view_; }
  bool touched() const;  // whether any byte of the memory, guard elements included, has changed since

 private:
  std::vector<char> bytes() const;

  Tensor base_, view_;
  std::vector<char> before_;
};

}  // namespace pursuit::driver

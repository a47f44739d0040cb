#include <ostream>
#include <sstream>

#include "engine/core/tensor.h"

namespace pursuit {

namespace {

constexpr int64_t most = 6;  // longer dimensions are printed as their first and last three entries

void print(std::ostream& out, const Tensor& x, int indent) {
  if (x.ndim() == 0) {
    if (is_floating(x.dtype()))
      out << x.item();
    else
      out << *x.to(DType::i64).data<int64_t>();  // exact, where item() would round
    return;
  }
  const int64_t n = x.size(0);
  const bool rows = x.ndim() > 1;
  out << '[';
  for (int64_t i = 0; i < n; ++i) {
    if (i > 0) out << (rows ? "," : ", ");
    if (i > 0 && rows) out << std::string(size_t(x.ndim() - 1), '\n') << std::string(size_t(indent), ' ');
    if (n > most && i == most / 2) {
      out << "...";
      i = n - most / 2 - 1;
      continue;
    }
    print(out, x[i], indent + 1);
  }
  out << ']';
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& x) {
  if (!x.defined()) return out << "undefined tensor";
  std::ostringstream values;
  values.precision(5);
  print(values, x.detach().to(cpu), 1);
  return out << values.str() << " " << x.str();
}

}  // namespace pursuit

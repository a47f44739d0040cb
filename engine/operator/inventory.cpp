#include "engine/operator/operator.h"

namespace pursuit {

std::vector<OperatorInfo>& inventory() {
  static std::vector<OperatorInfo> all;
  return all;
}

}  // namespace pursuit

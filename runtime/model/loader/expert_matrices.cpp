#include "runtime/model/loader/expert_matrices.hpp"

#include "runtime/base/check.hpp"

#include <string>

namespace paceline::model {

weight_view expert_matrices::operator[](std::uint32_t expert) const {
  PACELINE_CHECK(expert < size(), std::to_string(expert));
  if (!each_.empty()) return each_[expert];
  weight_view view = all_;
  const std::uint64_t row_bytes = all_.tensor.bytes.size() / all_.tensor.num_rows;
  view.tensor.num_rows = rows_.num_rows;
  view.tensor.bytes = all_.tensor.bytes.subspan((expert * rows_.stride + rows_.first) * row_bytes,
                                                rows_.num_rows * row_bytes);
  view.num_matrices = 1;
  return view;
}

} // namespace paceline::model

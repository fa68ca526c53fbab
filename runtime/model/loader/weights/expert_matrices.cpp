#include "runtime/model/loader/weights/expert_matrices.hpp"

#include "runtime/base/check.hpp"

#include <string>
#include <utility>

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

expected<std::unique_ptr<const device::matrix_set>>
pack_set(const expert_matrices& from, device::weight_memory& memory, const pack_matrix& pack) {
  std::vector<std::unique_ptr<const device::matrix>> matrices;
  matrices.reserve(from.size());
  for (std::uint32_t e = 0; e < from.size(); ++e) {
    auto packed = pack(from[e]);
    if (!packed) return std::move(packed).error();
    matrices.push_back(*std::move(packed));
  }
  return memory.make_set(from[0].name, std::move(matrices));
}

} // namespace paceline::model

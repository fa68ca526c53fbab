#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/device/matrix.hpp"
#include "runtime/model/loader/weights/weight_view.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace paceline::model {

/// The matrices of one role of a layer's experts, in order. A tensor that holds the matrices of all experts
/// is kept as one view, so a file that states very many experts cannot make this object large.
class expert_matrices {
 public:
  /// The rows of one tensor that form the matrices: matrix e has `num_rows` rows from e * `stride` + `first`
  /// on.
  struct layout {
    std::uint32_t num_experts = 0;
    std::uint64_t num_rows = 0;
    std::uint64_t stride = 0;
    std::uint64_t first = 0;
  };

  expert_matrices() = default; ///< of a layer without experts
  /// The rows that `rows` names must be in `all`.
  expert_matrices(const weight_view& all, const layout& rows) : all_(all), rows_(rows) {}
  /// The matrices are in one tensor for each expert.
  explicit expert_matrices(std::vector<weight_view> each) : each_(std::move(each)) {}

  std::uint32_t size() const noexcept {
    return each_.empty() ? rows_.num_experts : static_cast<std::uint32_t>(each_.size());
  }
  bool empty() const noexcept { return size() == 0; }
  /// The matrix of an expert below `size`.
  weight_view operator[](std::uint32_t expert) const;

 private:
  weight_view all_;
  layout rows_; ///< in `all_`
  std::vector<weight_view> each_;
};

/// Packs one matrix.
using pack_matrix = std::function<expected<std::unique_ptr<const device::matrix>>(const weight_view&)>;

/// Packs the matrices into a set of `memory`, one after another, so that at most one of them is in memory
/// unpacked.
expected<std::unique_ptr<const device::matrix_set>>
pack_set(const expert_matrices& from, device::weight_memory& memory, const pack_matrix& pack);

} // namespace paceline::model

#include "runtime/device/matrix.hpp"

#include "runtime/base/check.hpp"

#include <string>
#include <utility>
#include <vector>

namespace paceline::device {
namespace {

class separate_matrices final : public matrix_set {
 public:
  explicit separate_matrices(std::vector<std::unique_ptr<const matrix>> all) : all_(std::move(all)) {}

  std::uint32_t size() const noexcept override { return static_cast<std::uint32_t>(all_.size()); }
  const matrix& at(std::uint32_t index) const override {
    PACELINE_CHECK(index < all_.size(), "no matrix " + std::to_string(index));
    return *all_[index];
  }

 private:
  std::vector<std::unique_ptr<const matrix>> all_;
};

} // namespace

void check_set(std::string_view name, std::span<const std::unique_ptr<const matrix>> matrices) {
  PACELINE_CHECK(!matrices.empty(), std::string(name) + ": a set has a matrix");
  for (const auto& one : matrices)
    PACELINE_CHECK(one->type() == matrices[0]->type() && one->num_rows() == matrices[0]->num_rows() &&
                       one->num_cols() == matrices[0]->num_cols(),
                   std::string(name) + ": matrices of a set have one type and shape");
}

expected<std::unique_ptr<const matrix_set>>
weight_memory::make_set(std::string_view name, std::vector<std::unique_ptr<const matrix>> matrices) {
  check_set(name, matrices);
  return std::unique_ptr<const matrix_set>(std::make_unique<separate_matrices>(std::move(matrices)));
}

} // namespace paceline::device

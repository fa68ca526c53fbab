#include "runtime/base/check.hpp"
#include "runtime/device/matrix.hpp"

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

expected<std::unique_ptr<const matrix_set>> weight_memory::pack_set(std::string_view name,
                                                                    std::span<const tensor_view> tensors,
                                                                    const bytes_done& done,
                                                                    const bytes_needed& needed) {
  PACELINE_CHECK(!tensors.empty(), "a set has a matrix");
  std::vector<std::unique_ptr<const matrix>> all;
  all.reserve(tensors.size());
  for (const tensor_view& tensor : tensors) {
    PACELINE_CHECK(tensor.type == tensors[0].type && tensor.num_rows == tensors[0].num_rows &&
                       tensor.num_cols == tensors[0].num_cols,
                   "matrices of a set have one type and shape");
    auto packed = pack(name, tensor, done, needed);
    if (!packed) return std::move(packed).error();
    all.push_back(std::move(*packed));
  }
  return std::unique_ptr<const matrix_set>(std::make_unique<separate_matrices>(std::move(all)));
}

} // namespace paceline::device

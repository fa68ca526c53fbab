#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/model/loader/text_part.hpp"
#include "runtime/model/loader/weights/expert_matrices.hpp"
#include "runtime/model/loader/weights/fp8_weights.hpp"
#include "runtime/model/model_config.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::model {

class partial_file;

/// The weights of one model: every tensor that its config implies, each with exactly the implied shape, and
/// no unknown tensor. Vectors are in memory. The bytes of matrices are in the file until `read`. Moving the
/// object keeps all views valid.
///
/// Vectors are converted to F32 if necessary, and to one convention. Norms are factors; some families store
/// the factor minus 1 in Hugging Face's files. Decays are numbers not above 0; Hugging Face stores
/// log(-value). Taps are [num_taps][channels]; files have [channels][num_taps].
class weights_source {
 public:
  /// `tensors` are all tensors of a file, in any order, with vectors of any float type. `owner` and `files`
  /// keep bytes and names alive; bytes that are not in memory are read from `files`. `skipped` are tensors
  /// that the caller has left out. Errors name `file`, tensor and rule.
  static expected<weights_source> make(const model_config& config, std::span<const weight_view> tensors,
                                       tensor_naming naming, std::shared_ptr<const void> owner,
                                       std::string_view file,
                                       std::vector<std::shared_ptr<const partial_file>> files = {},
                                       const skipped_tensors& skipped = {});

  /// A tensor of the model. Roles that the config excludes give an empty view.
  const weight_view& at(tensor_role role) const;
  /// A tensor of layer `layer`. Roles that the config excludes give an empty view.
  const weight_view& at(tensor_role role, std::uint32_t layer) const;
  /// The matrices of a layer's experts; `role` is one of experts. Empty in a layer without experts.
  const expert_matrices& experts(tensor_role role, std::uint32_t layer) const;

  std::uint32_t num_layers() const noexcept { return static_cast<std::uint32_t>(layers_.size()); }
  /// Reads bytes of a matrix from the file, unless they are in memory. Error: `invalid_file`, naming the
  /// file. Thread-safe for disjoint bytes.
  expected<void> read(std::span<const std::byte> bytes) const;
  /// Frees the memory of a tensor's bytes. The caller has copied them and will not read them again soon.
  /// Thread-safe.
  void release(std::span<const std::byte> bytes) const noexcept;

  /// Bytes of all tensors as stored, FP8 tensors with their scales. A tied head counts once. Routers of 16
  /// bits take more bytes in memory, because they become F32 there.
  std::uint64_t total_bytes() const noexcept { return total_bytes_; }
  /// Number of tensors of modules for multi-token prediction, which are not among these weights.
  std::uint64_t num_mtp_tensors() const noexcept { return num_mtp_tensors_; }
  /// The tensors that the caller of `make` has left out.
  const skipped_tensors& skipped() const noexcept { return skipped_; }

 private:
  using role_table = std::array<weight_view, num_tensor_roles>;

  friend class weights_builder;
  weights_source() = default;

  role_table model_;
  std::vector<role_table> layers_;
  std::vector<std::array<expert_matrices, num_expert_roles>> experts_; ///< [layer][role]
  std::vector<std::unique_ptr<float[]>> converted_; ///< vectors whose values differ from the file's
  std::shared_ptr<const void> owner_;
  std::vector<std::shared_ptr<const partial_file>> files_;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t num_mtp_tensors_ = 0;
  skipped_tensors skipped_;
};

} // namespace paceline::model

#pragma once

#include "gpu/attention_plan.hpp"
#include "gpu/step_queue.hpp"
#include "runtime/device/op_attention.hpp"

#include <cstddef>
#include <span>

namespace paceline::gpu {

/// Launches the kernels of attention as defined in gpu/kernels/split_attention_params.hpp, through a step
/// queue. One object for each queue.
class split_attention {
 public:
  /// Limit for the partial results of one launch, in bytes. It is enough for 64 thousand positions of 8 rows
  /// in a model with 32 heads of 128 dimensions.
  static constexpr std::size_t usual_bytes = std::size_t{64} << 20;

  explicit split_attention(step_queue& steps, std::size_t most_bytes = usual_bytes)
      : steps_(steps), most_bytes_(most_bytes) {}

  /// Attention of all rows of `args`. `tiles` is the result of `tile_rows`, and `tiles_there` is its copy in
  /// device memory. `batch` has device addresses, too.
  void attend(const device::attention_args& args, std::span<const row_tile> tiles,
              const row_tile* tiles_there, const batch_view& batch);
  /// The same for a chain: `rows` has the rows of all its steps, and `args` has those of the first step.
  void attend_steps(const device::attention_args& args, std::span<const device::batch_entry> rows,
                    std::span<const row_tile> tiles, const row_tile* tiles_there, const batch_view& batch);

 private:
  split_partials room_for(const split_range& range, const attention_shape& shape);
  void attend_slice(const device::attention_args& args, const tile_slice& slice, const row_tile* tiles_there,
                    std::uint32_t queries_of_tile, const batch_view& batch);

  step_queue& steps_;
  const std::size_t most_bytes_;
  memory partials_; ///< of the current slice
};

attention_shape shape_of(const device::attention_args& args) noexcept;

} // namespace paceline::gpu

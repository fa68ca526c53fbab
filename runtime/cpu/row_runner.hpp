#pragma once

#include "runtime/cpu/kernel_level.hpp"
#include "runtime/cpu/row_kernels.hpp"
#include "runtime/cpu/thread_team.hpp"
#include "runtime/device/op_elementwise.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::cpu {

/// The row kernels of `level`, which this CPU must support.
const row_kernels& row_kernels_of(kernel_level level);

/// If a row op, or a step of a mixture of experts, has fewer values than this, the calling thread computes it
/// alone, because so few values take only about a microsecond.
inline constexpr std::size_t values_worth_sharing = 8192;

/// Executes the row ops on a thread team. The assignment to threads changes no result. Small work stays on
/// the calling thread, because waking the others would take longer.
class row_runner {
 public:
  row_runner(thread_team& team, kernel_level level);

  void rms_norm(const device::rms_norm_args& args);
  void rope_table(const device::rope_table_args& args);
  void rope(const device::rope_args& args);
  void glu(const device::glu_args& args);
  void add(const device::add_args& args);
  void gather(const device::gather_args& args);
  void scatter(const device::scatter_args& args);
  void kv_write(const device::kv_write_args& args);
  void kv_copy(const device::kv_copy_args& args);
  void attention(const device::attention_args& args);

 private:
  template <class Rows>
  void over_rows(std::uint32_t num_rows, std::size_t values_per_row, const Rows& rows);
  void plan_attention(const device::attention_args& args);
  bool plan_splits(const device::attention_args& args);
  bool shared_evenly();
  bool make_parts(const device::attention_args& args, std::uint32_t num_splits);

  thread_team& team_;
  const row_kernels& kernels_;
  /// One member's share of a unit (`attention_unit`): the member computes these splits of it.
  struct piece {
    std::uint32_t unit = 0;
    row_range splits;
  };
  // Data of the current attention op; members, so that their memory is reused.
  std::vector<attention_unit> units_;
  std::vector<row_range> visible_;  ///< splits that the rows of each unit see
  std::vector<std::uint32_t> busy_; ///< splits assigned to each member
  std::vector<piece> pieces_;
  attention_parts parts_; ///< in part_values_
  std::vector<float> part_values_;
};

} // namespace paceline::cpu

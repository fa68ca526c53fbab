#pragma once

#include "runtime/cpu/kernels/matmul.hpp"
#include "runtime/device/op_matmul.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline::cpu {

class thread_team;
class packed_matrix;

/// Positions [begin, end) of rows that are multiplied with the same matrices.
struct row_segment {
  std::uint32_t begin = 0, end = 0;
  std::span<const device::matmul_output> outputs; ///< y: [position][N], for positions from 0 on
};

/// Products of segments of rows. Each segment has its own matrices, as the experts of a mixture need. The
/// fields before `rows` are those of device::matmul_args.
struct segmented_matmul {
  const float* x = nullptr;
  std::size_t x_stride = 0;
  std::uint32_t num_cols = 0;
  bool two_planes = false;
  std::span<const std::uint32_t> rows;   ///< the row of x at each position; empty: row p at position p
  std::span<const row_segment> segments; ///< ascending and adjacent, from position 0 on; none is empty
};

/// Executes products on a team: quantises the row of each position, then distributes tiles of weights
/// (packed_layout.hpp) over the members. Keeps its scratch memory between calls; one call at a time.
class matmul_runner {
 public:
  matmul_runner(thread_team& team, const matmul_kernels& kernels);
  ~matmul_runner();

  void run(const device::matmul_args& args);
  void run(const segmented_matmul& args);

 private:
  struct product;
  struct chunk;
  struct row_group;

  void prepare(const segmented_matmul& args);
  void quantise_rows(const segmented_matmul& args);
  void quantise_row(const segmented_matmul& args, const row_group& group, std::uint32_t row);
  void add_groups(const row_segment& segment);
  product product_of(const device::matmul_output& output) const;
  void interleave_rows(const segmented_matmul& args);
  template <class Fn>
  void for_each_row(std::size_t num_values, Fn&& fn);
  void cut_chunks();
  void run_tiles(const product& part, std::uint32_t begin, std::uint32_t end,
                 std::span<const row_group> groups) const;
  void run_tile(const product& part, std::uint32_t tile, std::span<const row_group> groups) const;
  void write(const product& part, std::uint32_t tile, const row_group& group, float* sums) const;

  thread_team& team_;
  const matmul_kernels& kernels_;
  std::uint32_t num_cols_ = 0;
  /// Quantised rows that a kernel multiplies for one row of x: 2 with two_planes, else 1.
  std::uint32_t planes_ = 1;
  std::vector<product> products_;
  std::vector<chunk> chunks_;
  std::vector<row_group> groups_;        ///< rows of x that are processed by a kernel together
  std::vector<activation_block> blocks_; ///< the quantised rows, group by group
  std::vector<float> floats_;            ///< the float rows, group by group
};

} // namespace paceline::cpu

#include "runtime/cpu/matmul.hpp"

#include "runtime/base/check.hpp"
#include "runtime/cpu/packed_layout.hpp"
#include "runtime/cpu/packed_matrix.hpp"
#include "runtime/cpu/thread_team.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace paceline::cpu {

namespace {

/// Minimum number of bytes that a chunk should stream, counted once for each kernel call. With smaller
/// chunks, claiming them costs more than the better balance gains.
constexpr std::size_t min_chunk_bytes = 24 << 10;
/// Minimum number of chunks for each member, even with few tiles.
constexpr std::uint32_t min_chunks_per_member = 4;
/// Size of a panel that stays in the second-level cache while the tiles of a chunk are processed.
constexpr std::size_t max_panel_bytes = 256 << 10;
/// Largest number of row groups that process a tile in turn. A few rows wait for memory; with many rows the
/// arithmetic takes longer than the loads.
constexpr std::uint32_t most_groups_together = 2;
/// Number of blocks in one turn. It is a multiple of the unit of every format.
constexpr std::uint32_t blocks_in_turn = 8;
/// Below this amount of work the caller quantises the rows alone.
constexpr std::size_t min_parallel_values = 16 << 10;

/// remainder = x - d * q, rounded once: the product and the difference are exact in double precision.
void subtract_plane(const float* x, const activation_block& plane, float* rest) {
  const double d = plane.d;
  for (std::uint32_t i = 0; i < block_cols; ++i)
    rest[i] = static_cast<float>(static_cast<double>(x[i]) - d * static_cast<double>(plane.q[i]));
}

/// Prefetches the first bytes of a chunk; from there on the kernels prefetch.
void prefetch_tile(const std::byte* tile) {
  for (std::uint32_t at = 0; at < prefetch_bytes; at += line_bytes) __builtin_prefetch(tile + at, 0, 3);
}

/// y += x, for whole tiles (nearly all cases), with a length known to the compiler.
void add_to(float* y, const float* x, std::uint32_t count = tile_rows) {
  if (count == tile_rows)
    for (std::uint32_t i = 0; i < tile_rows; ++i) y[i] += x[i];
  else
    for (std::uint32_t i = 0; i < count; ++i) y[i] += x[i];
}

/// y = x, with a length known to the compiler for whole tiles. One library call for each row took an eighth
/// of a product's time.
void copy_to(float* y, const float* x, std::uint32_t count) {
  if (count == tile_rows)
    std::memcpy(y, x, tile_rows * sizeof(float));
  else
    std::copy_n(x, count, y);
}

} // namespace

/// One matrix and the kernels for its tiles.
struct matmul_runner::product {
  const device::matmul_output* output = nullptr;
  const packed_matrix* weights = nullptr;
  bool quantised = false;
  matmul_kernels::by_rows kernels{};
  matmul_kernels::float_by_rows float_kernels{};
  std::uint32_t group_begin = 0, group_end = 0; ///< the groups of its segment

  std::uint32_t num_groups() const noexcept { return group_end - group_begin; }
};

/// Some tiles of one product times some groups of rows. A member claims one chunk at a time.
struct matmul_runner::chunk {
  std::uint32_t product = 0;
  std::uint32_t tile_begin = 0, tile_end = 0;
  std::uint32_t group_begin = 0, group_end = 0;
};

struct matmul_runner::row_group {
  std::uint32_t begin = 0;    ///< position
  std::uint32_t num_rows = 0; ///< times planes_: 1..max_kernel_rows
};

matmul_runner::matmul_runner(thread_team& team, const matmul_kernels& kernels)
    : team_(team), kernels_(kernels) {}
matmul_runner::~matmul_runner() = default;

void matmul_runner::run(const device::matmul_args& args) {
  if (args.num_rows == 0 || args.outputs.empty()) return;
  const row_segment all{0, args.num_rows, args.outputs};
  run(segmented_matmul{args.x, args.x_stride, args.num_cols, args.two_planes, {}, {&all, 1}});
}

void matmul_runner::run(const segmented_matmul& args) {
  prepare(args);
  const auto is_quantised = [](const product& part) { return part.quantised; };
  if (std::any_of(products_.begin(), products_.end(), is_quantised)) quantise_rows(args);
  if (!std::all_of(products_.begin(), products_.end(), is_quantised)) interleave_rows(args);

  cut_chunks();
  team_.parallel_for(static_cast<std::uint32_t>(chunks_.size()), [&](std::uint32_t c, std::uint32_t) {
    const chunk& piece = chunks_[c];
    run_tiles(products_[piece.product], piece.tile_begin, piece.tile_end,
              std::span(groups_).subspan(piece.group_begin, piece.group_end - piece.group_begin));
  });
}

/// Distributes the tiles of all products: first large pieces, so that members stream through memory and
/// rarely claim, then smaller and smaller ones, so that they finish together (factoring: Hummel, Schonberg,
/// Flynn 1992). If there are too few tiles, the rows of x are divided, too.
void matmul_runner::cut_chunks() {
  chunks_.clear();
  std::size_t remaining = 0;
  std::uint32_t num_tiles = 0;
  for (const product& part : products_) {
    num_tiles += part.weights->num_tiles();
    remaining += part.weights->num_tiles() * part.weights->tile_bytes() * part.num_groups();
  }
  const std::uint32_t least = team_.size() * min_chunks_per_member;
  std::size_t share = 0;
  std::uint32_t num_pieces = 0;
  for (std::uint32_t p = 0; p < products_.size(); ++p) {
    const packed_matrix& weights = *products_[p].weights;
    const std::uint32_t first = products_[p].group_begin, num_groups = products_[p].num_groups();
    const std::uint32_t num_spans = team_.size() == 1 ? 1 : std::clamp(least / num_tiles, 1U, num_groups);
    const std::size_t tile_cost = weights.tile_bytes() * num_groups;
    for (std::uint32_t tile = 0; tile < weights.num_tiles(); ++num_pieces) {
      if (num_pieces % team_.size() == 0)
        share = std::max(min_chunk_bytes, remaining * 3 / (4 * team_.size()));
      const auto fitting = static_cast<std::uint32_t>(std::min<std::size_t>(share / tile_cost, num_tiles));
      const std::uint32_t end = std::min(tile + std::max(fitting, 1U), weights.num_tiles());
      for (std::uint32_t s = 0; s < num_spans; ++s)
        chunks_.push_back(
            {p, tile, end, first + num_groups * s / num_spans, first + num_groups * (s + 1) / num_spans});
      remaining -= (end - tile) * tile_cost;
      tile = end;
    }
  }
}

/// Checks the arguments, looks up the kernels and divides the rows into groups.
void matmul_runner::prepare(const segmented_matmul& args) {
  num_cols_ = args.num_cols;
  planes_ = args.two_planes ? 2 : 1;
  products_.clear();
  groups_.clear();
  for (const row_segment& segment : args.segments) {
    const auto first_group = static_cast<std::uint32_t>(groups_.size());
    add_groups(segment);
    for (const device::matmul_output& output : segment.outputs) {
      products_.push_back(product_of(output));
      products_.back().group_begin = first_group;
      products_.back().group_end = static_cast<std::uint32_t>(groups_.size());
    }
  }
}

matmul_runner::product matmul_runner::product_of(const device::matmul_output& output) const {
  const auto* const weights = dynamic_cast<const packed_matrix*>(output.weights);
  PACELINE_CHECK(weights != nullptr, "matmul: weights are not of this device");
  PACELINE_CHECK(weights->num_cols() == num_cols_, "matmul: weights have " +
                                                       std::to_string(weights->num_cols()) +
                                                       " columns, rows have " + std::to_string(num_cols_));
  product part;
  part.output = &output;
  part.weights = weights;
  part.quantised = !device::is_floating(weights->type());
  if (part.quantised)
    part.kernels = kernels_.quantised(weights->type());
  else
    part.float_kernels = kernels_.floats(weights->type());
  return part;
}

/// Divides a segment's rows into groups of nearly equal size.
void matmul_runner::add_groups(const row_segment& segment) {
  const std::uint32_t all_rows = segment.end - segment.begin;
  const std::uint32_t most =
      (all_rows * planes_ <= max_kernel_rows ? max_kernel_rows : kernels_.preferred_rows) / planes_;
  const std::uint32_t num_groups = (all_rows + most - 1) / most;
  for (std::uint32_t g = 0, begin = 0; g < num_groups; ++g) {
    const std::uint32_t num_rows = (all_rows - begin + num_groups - g - 1) / (num_groups - g);
    groups_.push_back({segment.begin + begin, num_rows});
    begin += num_rows;
  }
}

void matmul_runner::quantise_rows(const segmented_matmul& args) {
  const std::size_t num_blocks = args.num_cols / block_cols * planes_, num_rows = args.segments.back().end;
  if (blocks_.size() < num_rows * num_blocks) blocks_.resize(num_rows * num_blocks);
  for_each_row(num_rows * args.num_cols * planes_,
               [&](const row_group& group, std::uint32_t row) { quantise_row(args, group, row); });
}

namespace {

const float* row_at(const segmented_matmul& args, std::uint32_t position) {
  return args.x + (args.rows.empty() ? position : args.rows[position]) * args.x_stride;
}

} // namespace

/// Writes row `row` of a group to the group's panel; its second plane follows the first.
void matmul_runner::quantise_row(const segmented_matmul& args, const row_group& group, std::uint32_t row) {
  const std::uint32_t num_blocks = args.num_cols / block_cols;
  const std::size_t stride = group.num_rows * planes_;
  activation_block* const first =
      blocks_.data() + std::size_t{group.begin} * planes_ * num_blocks + row * planes_;
  const float* const x = row_at(args, group.begin + row);
  kernels_.quantise(x, num_blocks, first, stride);
  if (planes_ == 1) return;
  for (std::uint32_t b = 0; b < num_blocks; ++b) {
    float rest[block_cols];
    subtract_plane(x + b * block_cols, first[b * stride], rest);
    kernels_.quantise(rest, 1, first + b * stride + 1, stride);
  }
}

/// Calls fn(group, row of the group) for every row, on the whole team if there are many values.
template <class Fn>
void matmul_runner::for_each_row(std::size_t num_values, Fn&& fn) {
  const auto run = [&](std::uint32_t r) {
    const auto group = std::prev(std::upper_bound(
        groups_.begin(), groups_.end(), r, [](std::uint32_t p, const row_group& g) { return p < g.begin; }));
    fn(*group, r - group->begin);
  };
  const std::uint32_t num_rows = groups_.back().begin + groups_.back().num_rows;
  if (num_rows > 1 && num_values >= min_parallel_values)
    team_.parallel_for(num_rows, [&](std::uint32_t r, std::uint32_t) { run(r); });
  else
    for (std::uint32_t r = 0; r < num_rows; ++r) run(r);
}

void matmul_runner::interleave_rows(const segmented_matmul& args) {
  const std::size_t size = std::size_t{args.segments.back().end} * args.num_cols;
  if (floats_.size() < size) floats_.resize(size);
  for_each_row(size, [&](const row_group& group, std::uint32_t row) {
    const float* const x = row_at(args, group.begin + row);
    float* const to = floats_.data() + std::size_t{group.begin} * args.num_cols + row;
    for (std::size_t k = 0; k < args.num_cols; ++k) to[k * group.num_rows] = x[k];
  });
}

/// Processes tiles [begin, end) of one product with some groups of rows: as many groups as the cache holds,
/// then all tiles, so that weights are read from memory once.
void matmul_runner::run_tiles(const product& part, std::uint32_t begin, std::uint32_t end,
                              std::span<const row_group> groups) const {
  const std::size_t row_bytes = part.quantised ? planes_ * (num_cols_ / block_cols) * sizeof(activation_block)
                                               : num_cols_ * sizeof(float);
  prefetch_tile(part.weights->tile(begin));
  while (!groups.empty()) {
    std::size_t count = 0;
    for (std::size_t bytes = 0; count < groups.size() && (count == 0 || bytes < max_panel_bytes); ++count)
      bytes += groups[count].num_rows * row_bytes;
    const std::size_t together = part.num_groups() <= most_groups_together ? count : 1;
    for (std::uint32_t tile = begin; tile < end; ++tile)
      for (std::size_t g = 0; g < count; g += together) run_tile(part, tile, groups.subspan(g, together));
    groups = groups.subspan(count);
  }
}

/// Several groups process the tile in parts, in turn. So the next part is loaded from memory while all groups
/// multiply the current part, and not only while the first group does.
void matmul_runner::run_tile(const product& part, std::uint32_t tile,
                             std::span<const row_group> groups) const {
  alignas(64) float sums[most_groups_together][max_kernel_rows * tile_rows];
  const std::byte* const weights = part.weights->tile(tile);
  if (part.quantised) {
    const std::uint32_t num_blocks = num_cols_ / block_cols;
    const std::uint32_t step = groups.size() == 1 ? num_blocks : blocks_in_turn;
    for (std::uint32_t b = 0; b < num_blocks; b += step)
      for (std::size_t g = 0; g < groups.size(); ++g) {
        const std::uint32_t rows = groups[g].num_rows * planes_;
        part.kernels[rows - 1](
            {weights, num_blocks, b, std::min(b + step, num_blocks)},
            blocks_.data() + std::size_t{groups[g].begin} * planes_ * num_blocks + b * rows, sums[g]);
      }
  } else {
    for (std::size_t g = 0; g < groups.size(); ++g)
      part.float_kernels[groups[g].num_rows - 1](
          weights, floats_.data() + std::size_t{groups[g].begin} * num_cols_, num_cols_, sums[g]);
  }
  for (std::size_t g = 0; g < groups.size(); ++g) write(part, tile, groups[g], sums[g]);
}

/// Writes the sums of a tile and a group to the product's output.
void matmul_runner::write(const product& part, std::uint32_t tile, const row_group& group,
                          float* sums) const {
  const device::matmul_output& output = *part.output;
  const std::uint32_t first = tile * tile_rows;
  const std::uint32_t count = std::min(tile_rows, part.weights->num_rows() - first);
  const std::uint32_t planes = part.quantised ? planes_ : 1;
  const float* const bias = output.bias == nullptr ? nullptr : output.bias + first;
  for (std::uint32_t r = 0; r < group.num_rows; ++r, sums += planes * tile_rows) {
    if (planes == 2) add_to(sums, sums + tile_rows);
    if (bias != nullptr) add_to(sums, bias, count);
    float* const y = output.y + (group.begin + r) * output.y_stride + first;
    if (output.add)
      add_to(y, sums, count);
    else
      copy_to(y, sums, count);
  }
}

} // namespace paceline::cpu

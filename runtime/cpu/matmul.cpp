#include "runtime/cpu/matmul.hpp"

#include "runtime/base/check.hpp"
#include "runtime/cpu/packed_layout.hpp"
#include "runtime/cpu/packed_matrix.hpp"
#include "runtime/cpu/thread_team.hpp"

#include <algorithm>
#include <string>

namespace paceline::cpu {

namespace {

/// Weights a chunk should stream at least, counted once a kernel call: less, and claiming chunks costs more
/// than it evens out.
constexpr std::size_t min_chunk_bytes = 32 << 10;
/// Chunks a member should get where there is work enough, so that one which is held up can be helped.
constexpr std::uint32_t chunks_per_member = 8;
/// Panel that stays in the second-level cache while a chunk's tiles pass by.
constexpr std::size_t max_panel_bytes = 256 << 10;
/// Work below which rows are quantised by the caller alone.
constexpr std::size_t min_parallel_values = 16 << 10;

/// rest = x - d * q, rounded once: the product and the difference are exact in double precision.
void subtract_plane(const float* x, const activation_block& plane, float* rest) {
  const double d = plane.d;
  for (std::uint32_t i = 0; i < block_cols; ++i)
    rest[i] = static_cast<float>(static_cast<double>(x[i]) - d * static_cast<double>(plane.q[i]));
}

} // namespace

/// One matrix and what its tiles are run with.
struct matmul_runner::product {
  const device::matmul_output* output = nullptr;
  const packed_matrix* weights = nullptr;
  bool quantised = false;
  matmul_kernels::by_rows kernels{};
  matmul_kernels::float_by_rows float_kernels{};
  std::uint32_t chunk_begin = 0; ///< number of its first chunk
  std::uint32_t chunk_tiles = 0;
  std::uint32_t num_tile_chunks = 0;
  std::uint32_t num_spans = 0; ///< parts that the groups of rows are cut into
};

struct matmul_runner::row_group {
  std::uint32_t begin = 0;
  std::uint32_t num_rows = 0; ///< times planes_: 1..max_kernel_rows
};

matmul_runner::matmul_runner(thread_team& team, const matmul_kernels& kernels)
    : team_(team), kernels_(kernels) {}
matmul_runner::~matmul_runner() = default;

void matmul_runner::run(const device::matmul_args& args) {
  if (args.num_rows == 0 || args.outputs.empty()) return;
  prepare(args);
  const auto is_quantised = [](const product& part) { return part.quantised; };
  if (std::any_of(products_.begin(), products_.end(), is_quantised)) quantise_rows(args);
  if (!std::all_of(products_.begin(), products_.end(), is_quantised)) interleave_rows(args);

  std::uint32_t num_chunks = 0;
  for (product& part : products_) {
    cut(part);
    part.chunk_begin = num_chunks;
    num_chunks += part.num_tile_chunks * part.num_spans;
  }
  team_.parallel_for(num_chunks, [&](std::uint32_t chunk, std::uint32_t) {
    auto part = std::prev(products_.end());
    while (part->chunk_begin > chunk) --part;
    chunk -= part->chunk_begin;
    const std::uint32_t tile = chunk / part->num_spans * part->chunk_tiles;
    const std::uint32_t span = chunk % part->num_spans;
    const auto groups_before = [&](std::size_t s) { return groups_.size() * s / part->num_spans; };
    run_tiles(*part, tile, std::min(tile + part->chunk_tiles, part->weights->num_tiles()),
              std::span(groups_).subspan(groups_before(span), groups_before(span + 1) - groups_before(span)));
  });
}

/// Decides on a product's chunks: some tiles each; and where these are too few for the team, some rows of x.
void matmul_runner::cut(product& part) const {
  const std::uint32_t num_tiles = part.weights->num_tiles();
  const std::size_t tile_cost = part.weights->tile_bytes() * groups_.size();
  const auto at_least = static_cast<std::uint32_t>((min_chunk_bytes + tile_cost - 1) / tile_cost);
  const std::uint32_t wanted = team_.size() * chunks_per_member;
  part.chunk_tiles = std::max(at_least, num_tiles / wanted);
  part.num_tile_chunks = (num_tiles + part.chunk_tiles - 1) / part.chunk_tiles;
  part.num_spans = 1;
  if (part.chunk_tiles == 1 && team_.size() > 1)
    part.num_spans = std::clamp<std::uint32_t>(wanted / part.num_tile_chunks, 1,
                                               static_cast<std::uint32_t>(groups_.size()));
}

/// Checks the arguments, looks up kernels and cuts the rows of x into groups of nearly equal size.
void matmul_runner::prepare(const device::matmul_args& args) {
  num_cols_ = args.num_cols;
  planes_ = args.two_planes ? 2 : 1;
  products_.clear();
  for (const device::matmul_output& output : args.outputs) {
    const auto* const weights = dynamic_cast<const packed_matrix*>(output.weights);
    PACELINE_CHECK(weights != nullptr, "matmul: weights are not of this device");
    PACELINE_CHECK(weights->num_cols() == args.num_cols,
                   "matmul: weights have " + std::to_string(weights->num_cols()) + " columns, rows have " +
                       std::to_string(args.num_cols));
    product part;
    part.output = &output;
    part.weights = weights;
    part.quantised = device::quantised_traits_of(weights->type()).has_value();
    if (part.quantised)
      part.kernels = kernels_.quantised(weights->type());
    else
      part.float_kernels = kernels_.floats(weights->type());
    products_.push_back(part);
  }
  groups_.clear();
  const std::uint32_t num_kernel_rows = args.num_rows * planes_;
  const std::uint32_t most =
      (num_kernel_rows <= max_kernel_rows ? max_kernel_rows : kernels_.preferred_rows) / planes_;
  const std::uint32_t num_groups = (args.num_rows + most - 1) / most;
  for (std::uint32_t g = 0, begin = 0; g < num_groups; ++g) {
    const std::uint32_t num_rows = (args.num_rows - begin + num_groups - g - 1) / (num_groups - g);
    groups_.push_back({begin, num_rows});
    begin += num_rows;
  }
}

/// Calls fn(group) for every group of rows; on the whole team when there are many values.
template <class Fn>
void matmul_runner::for_each_group(std::size_t num_values, Fn&& fn) {
  if (num_values >= min_parallel_values)
    team_.parallel_for(static_cast<std::uint32_t>(groups_.size()),
                       [&](std::uint32_t g, std::uint32_t) { fn(groups_[g]); });
  else
    for (const row_group& group : groups_) fn(group);
}

void matmul_runner::quantise_rows(const device::matmul_args& args) {
  const std::size_t num_blocks = args.num_cols / block_cols * planes_;
  if (blocks_.size() < args.num_rows * num_blocks) blocks_.resize(args.num_rows * num_blocks);
  if (std::size_t{args.num_rows} * args.num_cols >= min_parallel_values)
    team_.parallel_for(static_cast<std::uint32_t>(groups_.size()),
                       [&](std::uint32_t g, std::uint32_t) { quantise_group(args, groups_[g]); });
  else
    for (const row_group& group : groups_) quantise_group(args, group);
}

/// The panel of one group; a row's second plane stands behind its first.
void matmul_runner::quantise_group(const device::matmul_args& args, const row_group& group) {
  const std::uint32_t num_blocks = args.num_cols / block_cols;
  const std::size_t stride = group.num_rows * planes_;
  activation_block* const panel = blocks_.data() + std::size_t{group.begin} * planes_ * num_blocks;
  for (std::uint32_t r = 0; r < group.num_rows; ++r) {
    const float* const x = args.x + (group.begin + r) * args.x_stride;
    activation_block* const first = panel + r * planes_;
    kernels_.quantise(x, num_blocks, first, stride);
    if (planes_ == 1) continue;
    for (std::uint32_t b = 0; b < num_blocks; ++b) {
      float rest[block_cols];
      subtract_plane(x + b * block_cols, first[b * stride], rest);
      kernels_.quantise(rest, 1, first + b * stride + 1, stride);
    }
  }
}

void matmul_runner::interleave_rows(const device::matmul_args& args) {
  const std::size_t size = std::size_t{args.num_rows} * args.num_cols;
  if (floats_.size() < size) floats_.resize(size);
  for_each_group(size, [&](const row_group& group) {
    for (std::uint32_t r = 0; r < group.num_rows; ++r) {
      const float* const x = args.x + (group.begin + r) * args.x_stride;
      float* const to = floats_.data() + std::size_t{group.begin} * args.num_cols + r;
      for (std::size_t k = 0; k < args.num_cols; ++k) to[k * group.num_rows] = x[k];
    }
  });
}

/// Tiles [begin, end) of one product times some groups of rows: as many groups as the cache holds, then the
/// tiles, so that weights come from memory once.
void matmul_runner::run_tiles(const product& part, std::uint32_t begin, std::uint32_t end,
                              std::span<const row_group> groups) const {
  const std::size_t row_bytes = part.quantised ? planes_ * (num_cols_ / block_cols) * sizeof(activation_block)
                                               : num_cols_ * sizeof(float);
  while (!groups.empty()) {
    std::size_t count = 0;
    for (std::size_t bytes = 0; count < groups.size() && (count == 0 || bytes < max_panel_bytes); ++count)
      bytes += groups[count].num_rows * row_bytes;
    for (std::uint32_t tile = begin; tile < end; ++tile)
      for (const row_group& group : groups.first(count)) run_tile(part, tile, group);
    groups = groups.subspan(count);
  }
}

void matmul_runner::run_tile(const product& part, std::uint32_t tile, const row_group& group) const {
  alignas(64) float results[max_kernel_rows * tile_rows];
  const std::byte* const weights = part.weights->tile(tile);
  if (part.quantised) {
    const std::uint32_t num_blocks = num_cols_ / block_cols;
    part.kernels[group.num_rows * planes_ - 1](
        weights, blocks_.data() + std::size_t{group.begin} * planes_ * num_blocks, num_blocks, results);
  } else {
    part.float_kernels[group.num_rows - 1](weights, floats_.data() + std::size_t{group.begin} * num_cols_,
                                           num_cols_, results);
  }
  const device::matmul_output& output = *part.output;
  const std::uint32_t first = tile * tile_rows;
  const std::uint32_t count = std::min(tile_rows, part.weights->num_rows() - first);
  const std::uint32_t planes = part.quantised ? planes_ : 1;
  for (std::uint32_t r = 0; r < group.num_rows; ++r) {
    float* const y = output.y + (group.begin + r) * output.y_stride + first;
    for (std::uint32_t i = 0; i < count; ++i) {
      float value = results[r * planes * tile_rows + i];
      if (planes == 2) value += results[(r * 2 + 1) * tile_rows + i];
      if (output.bias != nullptr) value += output.bias[first + i];
      y[i] = output.add ? y[i] + value : value;
    }
  }
}

} // namespace paceline::cpu

#include "runtime/cpu/row_runner.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/scalar_math.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

namespace paceline::cpu {
namespace {

/// Chunks for each member in a shared op, so that a delayed member delays little.
constexpr std::uint32_t chunks_per_member = 4;
/// Largest number of values for parts of splits, to share one row among members: 16 MiB.
constexpr std::size_t most_part_values = std::size_t{4} << 20;

void copy_scales(const device::kv_layer& into, const device::kv_layer& of, const device::kv_copy& copy,
                 std::uint32_t head) {
  const std::size_t to = into.scale_index(copy.to_block, head, copy.to_offset);
  const std::size_t from = of.scale_index(copy.from_block, head, copy.from_offset);
  const std::size_t num_bytes = copy.num_cells * sizeof(float);
  std::memmove(into.key_scales + to, of.key_scales + from, num_bytes);
  std::memmove(into.value_scales + to, of.value_scales + from, num_bytes);
}

void copy_cells(const device::kv_layer& into, const device::kv_layer& of, const device::kv_copy& copy) {
  const kv_type_traits traits = traits_of(into.type);
  const std::size_t value_bytes = traits.value_bytes;
  auto* const keys = static_cast<std::byte*>(into.keys);
  auto* const values = static_cast<std::byte*>(into.values);
  const auto* const keys_of = static_cast<const std::byte*>(of.keys);
  const auto* const values_of = static_cast<const std::byte*>(of.values);
  for (std::uint32_t h = 0; h < into.num_heads; ++h) {
    for (std::uint32_t d = 0; d < into.head_dim; ++d) {
      std::memmove(keys + into.key_index(copy.to_block, h, copy.to_offset, d) * value_bytes,
                   keys_of + of.key_index(copy.from_block, h, copy.from_offset, d) * value_bytes,
                   copy.num_cells * value_bytes);
    }
    std::memmove(values + into.value_index(copy.to_block, h, copy.to_offset, 0) * value_bytes,
                 values_of + of.value_index(copy.from_block, h, copy.from_offset, 0) * value_bytes,
                 copy.num_cells * into.head_dim * value_bytes);
    if (traits.scale_bytes != 0) copy_scales(into, of, copy, h);
  }
}

} // namespace

const row_kernels& row_kernels_of(kernel_level level) {
  switch (level) {
  case kernel_level::scalar:
    return reference_row_kernels();
  case kernel_level::avx2:
  case kernel_level::avx_vnni: // these ops multiply no bytes
    return avx2_row_kernels();
  case kernel_level::avx512_vnni:
    return avx512_row_kernels();
  }
  PACELINE_CHECK(false, "unknown kernel level");
}

row_runner::row_runner(thread_team& team, kernel_level level)
    : team_(team), kernels_(row_kernels_of(level)) {}

/// Calls rows(row_range) for all of `num_rows`, in one piece or divided among members.
template <class Rows>
void row_runner::over_rows(std::uint32_t num_rows, std::size_t values_per_row, const Rows& rows) {
  if (num_rows < 2 || team_.size() == 1 || num_rows * values_per_row < values_worth_sharing) {
    rows(row_range{0, num_rows});
    return;
  }
  const std::uint64_t num_chunks = std::min(num_rows, team_.size() * chunks_per_member);
  team_.parallel_for(static_cast<std::uint32_t>(num_chunks), [&](std::uint32_t chunk, std::uint32_t) {
    rows(row_range{static_cast<std::uint32_t>(chunk * num_rows / num_chunks),
                   static_cast<std::uint32_t>((chunk + 1) * num_rows / num_chunks)});
  });
}

void row_runner::rms_norm(const device::rms_norm_args& args) {
  over_rows(args.num_rows, std::size_t{args.num_parts} * args.width,
            [&](row_range rows) { kernels_.rms_norm(args, rows); });
}

void row_runner::rope_table(const device::rope_table_args& args) {
  const std::size_t num_pairs = args.frequencies.size();
  constexpr std::size_t values_per_angle = 64; // a double-precision sine and cosine cost about as much
  over_rows(static_cast<std::uint32_t>(args.rows.size()), num_pairs * values_per_angle, [&](row_range rows) {
    for (std::uint32_t r = rows.begin; r < rows.end; ++r) {
      float* cosines = args.table + r * 2 * num_pairs;
      float* sines = cosines + num_pairs;
      const double magnitude = args.magnitude_of(args.rows[r]);
      for (std::size_t i = 0; i < num_pairs; ++i) {
        const double angle = static_cast<double>(args.rows[r].rotary_position().value) * args.frequencies[i];
        cosines[i] = static_cast<float>(magnitude * std::cos(angle));
        sines[i] = static_cast<float>(magnitude * std::sin(angle));
      }
    }
  });
}

void row_runner::rope(const device::rope_args& args) {
  over_rows(args.num_rows, std::size_t{args.num_heads} * args.head_dim,
            [&](row_range rows) { kernels_.rope(args, rows); });
}

void row_runner::glu(const device::glu_args& args) {
  over_rows(args.num_rows, std::size_t{args.width} * 4, [&](row_range rows) { kernels_.glu(args, rows); });
}

void row_runner::add(const device::add_args& args) {
  over_rows(args.num_rows, args.width, [&](row_range rows) {
    for (std::uint32_t r = rows.begin; r < rows.end; ++r) {
      float* y = args.y + r * args.y_stride;
      const float* x = args.x + r * args.x_stride;
      float factor = args.scale;
      if (args.gate != nullptr)
        factor *= 1.0F / (1.0F + device::exp_reference(-args.gate[r * args.gate_stride]));
      for (std::uint32_t i = 0; i < args.width; ++i) y[i] += factor * x[i];
    }
  });
}

void row_runner::gather(const device::gather_args& args) {
  over_rows(args.num_rows, args.width, [&](row_range rows) {
    for (std::uint32_t r = rows.begin; r < rows.end; ++r) {
      const std::uint32_t from = args.rows != nullptr ? args.rows[r] : r;
      std::memcpy(args.y + r * args.y_stride, args.x + from * args.x_stride, args.width * sizeof(float));
    }
  });
}

void row_runner::scatter(const device::scatter_args& args) {
  over_rows(args.num_rows, args.width, [&](row_range rows) {
    for (std::uint32_t r = rows.begin; r < rows.end; ++r)
      std::memcpy(args.y + args.rows[r] * args.y_stride, args.x + r * args.x_stride,
                  args.width * sizeof(float));
  });
}

void row_runner::kv_write(const device::kv_write_args& args) {
  PACELINE_CHECK(args.layer.head_dim <= device::max_head_dim,
                 "kv_write: head_dim " + std::to_string(args.layer.head_dim));
  over_rows(static_cast<std::uint32_t>(args.batch->rows.size()),
            std::size_t{args.layer.num_heads} * args.layer.head_dim * 2,
            [&](row_range rows) { kernels_.kv_write(args, rows); });
}

void row_runner::kv_copy(const device::kv_copy_args& args) {
  device::check_copies(args);
  for (const device::kv_copy& copy : args.copies) copy_cells(args.layer, args.source(), copy);
}

/// Divides the rows and heads into units. A unit has as many heads of a key-value head's group, and as many
/// rows of a sequence, as share loads.
void row_runner::plan_attention(const device::attention_args& args) {
  const std::uint32_t group = args.num_heads / args.layer.num_heads;
  const auto rows = args.batch->rows;
  const auto num_rows = static_cast<std::uint32_t>(rows.size());
  const std::uint32_t parts = (group + attention_unit_queries - 1) / attention_unit_queries;
  const std::uint32_t rows_per_unit = attention_unit_queries / ((group + parts - 1) / parts);
  units_.clear();
  for (std::uint32_t begin = 0; begin < num_rows;) {
    std::uint32_t end = begin + 1;
    while (end < num_rows && end - begin < rows_per_unit && rows[end].sequence == rows[begin].sequence) ++end;
    for (std::uint32_t kv_head = 0; kv_head < args.layer.num_heads; ++kv_head) {
      for (std::uint32_t p = 0; p < parts; ++p)
        units_.push_back(
            {{begin, end}, kv_head * group + group * p / parts, kv_head * group + group * (p + 1) / parts});
    }
    begin = end;
  }
}

/// If there are too few units for all members, divides them by splits. False if this gains nothing or needs
/// too much memory.
bool row_runner::plan_splits(const device::attention_args& args) {
  const std::size_t wanted = std::size_t{team_.size()} * chunks_per_member;
  if (team_.size() == 1 || units_.size() >= wanted) return false;
  visible_.clear();
  std::size_t total = 0;
  std::uint32_t num_splits = 0;
  for (const attention_unit& unit : units_) {
    row_range seen{std::numeric_limits<std::uint32_t>::max(), 0};
    for (std::uint32_t r = unit.rows.begin; r < unit.rows.end; ++r) {
      const token_position position = args.batch->rows[r].position;
      seen.begin = std::min(seen.begin, device::first_visible(args, position) / device::attention_split);
      seen.end = std::max(seen.end, position.value / device::attention_split + 1);
    }
    visible_.push_back(seen);
    total += seen.end - seen.begin;
    num_splits = std::max(num_splits, seen.end);
  }
  if (total == units_.size() || shared_evenly() || !make_parts(args, num_splits)) return false;
  const auto at_once = static_cast<std::uint32_t>(std::max<std::size_t>(1, total / wanted));
  pieces_.clear();
  for (std::uint32_t u = 0; u < units_.size(); ++u)
    for (std::uint32_t s = visible_[u].begin; s < visible_[u].end; s += at_once)
      pieces_.push_back({u, {s, std::min(s + at_once, visible_[u].end)}});
  return true;
}

/// True if the members that take whole units wait less for each other than parts would cost. Parts cost about
/// a quarter of the work plus two splits.
bool row_runner::shared_evenly() {
  busy_.assign(team_.size(), 0);
  std::uint32_t total = 0;
  for (const row_range& seen : visible_) {
    *std::min_element(busy_.begin(), busy_.end()) += seen.end - seen.begin;
    total += seen.end - seen.begin;
  }
  return *std::max_element(busy_.begin(), busy_.end()) * team_.size() <= total + total / 4 + 2;
}

/// Allocates memory for `num_splits` splits of all rows and heads; false if it is too much.
bool row_runner::make_parts(const device::attention_args& args, std::uint32_t num_splits) {
  const std::uint32_t acc_stride = (args.layer.head_dim + 15) / 16 * 16;
  const std::size_t count = args.batch->rows.size() * args.num_heads * num_splits;
  const std::size_t num_values = count * (acc_stride + 2);
  if (num_values > most_part_values) return false;
  if (part_values_.size() < num_values) part_values_.resize(num_values);
  float* const acc = part_values_.data();
  parts_ = {acc + count * acc_stride, acc + count * (acc_stride + 1), acc, num_splits, acc_stride};
  return true;
}

void row_runner::attention(const device::attention_args& args) {
  PACELINE_CHECK(args.layer.head_dim <= device::max_head_dim,
                 "attention: head_dim " + std::to_string(args.layer.head_dim));
  plan_attention(args);
  if (plan_splits(args)) {
    team_.parallel_for(static_cast<std::uint32_t>(pieces_.size()), [&](std::uint32_t p, std::uint32_t) {
      kernels_.attention_splits(args, units_[pieces_[p].unit], pieces_[p].splits, parts_);
    });
    over_rows(static_cast<std::uint32_t>(args.batch->rows.size()),
              std::size_t{args.num_heads} * parts_.num_splits * parts_.acc_stride,
              [&](row_range rows) { kernels_.merge_splits(args, rows, parts_); });
    return;
  }
  if (units_.size() == 1 || team_.size() == 1) {
    for (const attention_unit& unit : units_) kernels_.attention(args, unit);
    return;
  }
  team_.parallel_for(static_cast<std::uint32_t>(units_.size()),
                     [&](std::uint32_t unit, std::uint32_t) { kernels_.attention(args, units_[unit]); });
}

} // namespace paceline::cpu

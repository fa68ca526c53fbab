#include "runtime/cpu/short_conv_runner.hpp"

#include "runtime/base/check.hpp"
#include "runtime/cpu/copy_past_caches.hpp"
#include "runtime/device/conv_plan.hpp"

#include <algorithm>
#include <array>

namespace paceline::cpu {
namespace {

/// A convolution with fewer products than this runs on the calling thread alone: that is work of some
/// microseconds.
constexpr std::size_t products_worth_sharing = 16384;
/// Channels computed at a time, so that a row's inputs stay in the first cache.
constexpr std::uint32_t channels_at_once = 256;

} // namespace

void short_conv_runner::run(const device::short_conv_args& args) {
  const auto num_rows = static_cast<std::uint32_t>(args.rows.size());
  PACELINE_CHECK(args.num_taps >= 2 && args.num_taps <= device::max_conv_taps,
                 "short_conv: " + std::to_string(args.num_taps) + " taps");
  PACELINE_CHECK(args.states.slot_stride >= std::size_t{args.num_taps - 1} * args.width,
                 "short_conv: a slot does not hold the inputs of a convolution");
  find_inputs(args);
  const std::uint32_t num_parts = (args.width + channels_at_once - 1) / channels_at_once;
  const auto part = [&](std::uint32_t p) {
    const std::uint32_t begin = p * channels_at_once;
    convolve(args, {begin, std::min(begin + channels_at_once, args.width)});
  };
  if (std::size_t{num_rows} * args.width * args.num_taps < products_worth_sharing) {
    for (std::uint32_t p = 0; p < num_parts; ++p) part(p);
    return;
  }
  team_.parallel_for(num_parts, [&](std::uint32_t p, std::uint32_t) { part(p); });
}

/// Finds the inputs of each row, its own last.
void short_conv_runner::find_inputs(const device::short_conv_args& args) {
  using source = device::conv_input::source;
  const std::vector<device::conv_input> plan = device::plan_conv(args.rows, args.num_taps);
  inputs_.clear();
  auto next = plan.begin();
  for (std::size_t r = 0; r < args.rows.size(); ++r) {
    for (std::uint32_t k = 0; k + 1 < args.num_taps; ++k, ++next) {
      const float* input = nullptr;
      if (next->from == source::row) input = args.u + next->row_or_slot * args.stride;
      if (next->from == source::slot)
        input = args.states.values + next->row_or_slot * args.states.slot_stride +
                std::size_t{next->record} * args.width;
      inputs_.push_back(input);
    }
    inputs_.push_back(args.u + r * args.stride);
  }
}

void short_conv_runner::convolve(const device::short_conv_args& args, row_range channels) const {
  std::array<float, channels_at_once> sum;
  const std::uint32_t begin = channels.begin, count = channels.end - channels.begin, width = args.width;
  for (std::size_t r = 0; r < args.rows.size(); ++r) {
    const std::size_t at = r * args.stride + begin;
    float* const z = args.u + at;
    if (args.in_gate != nullptr)
      for (std::uint32_t i = 0; i < count; ++i) z[i] = args.in_gate[at + i] * z[i];
    const float* const* const inputs = inputs_.data() + r * args.num_taps;
    sum.fill(0);
    for (std::uint32_t tap = 0; tap < args.num_taps; ++tap) {
      if (inputs[tap] == nullptr) continue; // adds zeros
      const float* const weights = args.weights + std::size_t{tap} * width + begin;
      const float* const input = inputs[tap] + begin;
      for (std::uint32_t i = 0; i < count; ++i) sum[i] += weights[i] * input[i];
    }
    if (args.bias != nullptr)
      for (std::uint32_t i = 0; i < count; ++i) sum[i] += args.bias[begin + i];
    float* const out = args.out + at;
    if (args.out_gate != nullptr)
      for (std::uint32_t i = 0; i < count; ++i) sum[i] *= args.out_gate[at + i];
    std::copy_n(sum.data(), count, out);
    if (!args.rows[r].write) continue;
    float* const slot = args.states.values + args.rows[r].write->value * args.states.slot_stride;
    for (std::uint32_t k = 0; k + 1 < args.num_taps; ++k) {
      float* const to = slot + std::size_t{k} * width + begin;
      if (const float* const input = inputs[k + 1])
        copy_past_caches(input + begin, count, to);
      else
        std::fill_n(to, count, 0.0F);
    }
  }
  finish_copies();
}

} // namespace paceline::cpu

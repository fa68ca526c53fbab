#pragma once

#include "runtime/device/row_batch.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline::device {

/// Largest number of inputs of a convolution, the row's own included.
inline constexpr std::uint32_t max_conv_taps = 16;

/// The slots of a convolution's state. A slot holds the inputs z of the last num_taps - 1 rows, which the
/// next row needs.
struct conv_states {
  float* values = nullptr;     ///< device memory: slot s has [num_taps - 1][width] at s * slot_stride,
                               ///< oldest first
  std::size_t slot_stride = 0; ///< floats from one slot to the next
  std::uint32_t num_slots = 0;
};

/// A causal convolution over the last rows of a text, of each channel by itself, with or without gates. For
/// each row and channel c:
///
///     z = in_gate[c] * u[c]                                       (without a gate: u[c])
///     y = sum over j = 0 .. num_taps - 1 of weights[j][c] * z_j   (+ bias[c], added last)
///     out[c] = out_gate[c] * y                                    (without a gate: y)
///
/// where z_j is the z of the row that is num_taps - 1 - j rows earlier in the text; it is 0 before the text's
/// first row. The sum begins with 0 and adds the terms in order; every operation is rounded to float32. So a
/// row's result has the same bits whatever the other rows are.
///
/// The z of earlier rows come from this pass as far as `rows[r].parent` leads, and before that from the slot
/// `read`. A row with a slot `write` leaves its own z and the num_taps - 2 before it in that slot.
///
/// Sources: with gates LFM2 (Liquid AI, 2025), transformers' `Lfm2ShortConv`; without gates the input of a
/// gated delta rule (op_gated_delta.hpp).
struct short_conv_args {
  std::span<const row_state> rows; ///< host memory, [num_rows]; parents come before their children
  float* u = nullptr;              ///< [num_rows][width]; z overwrites it
  const float* in_gate = nullptr;  ///< [num_rows][width]; null: none
  const float* out_gate = nullptr; ///< [num_rows][width]; null: none
  float* out = nullptr;            ///< [num_rows][width]; not u; may overwrite in_gate
  std::size_t stride = 0;          ///< values from a row to the next, in u, both gates and out
  std::uint32_t width = 0;
  std::uint32_t num_taps = 0;     ///< 2 to max_conv_taps
  const float* weights = nullptr; ///< device memory, [num_taps][width]
  const float* bias = nullptr;    ///< device memory, [width]; null: none
  conv_states states;
};

} // namespace paceline::device

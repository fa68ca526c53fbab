#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/device/matrix.hpp"
#include "runtime/device/ops.hpp"
#include "runtime/model/heads/head_ops.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace paceline::model {

/// How a Markov head uses the tokens before a slot.
enum class markov_kind : std::uint8_t { none, vanilla, gated, rnn };

/// Weights of a Markov head of rank R and of a confidence head, for hidden states of H values. Absent parts
/// are null.
struct markov_weights {
  markov_kind kind = markov_kind::none;
  std::uint32_t rank = 0;
  std::unique_ptr<const device::matrix> previous; ///< W1 [tokens][R]
  std::unique_ptr<const device::matrix> logits;   ///< W2 [tokens of the LM head][R]
  std::unique_ptr<const device::matrix> mix;      ///< gated: [R][H + R]; rnn: [3R][2R + H]
  const float* mix_bias = nullptr;
  const float* zeros = nullptr;                     ///< [R]; rnn: the state before the first slot
  std::unique_ptr<const device::matrix> confidence; ///< [1][H], or [1][H + R]: reads W1 of the token, too
  const float* confidence_bias = nullptr;

  std::uint64_t size_bytes() const noexcept;
};

/// The computation of a Markov head (DSpark: DeepSeek-AI's DeepSpec) for some rows. z is the hidden state
/// of a row's slot, e = W1[token before the slot], s the state of the RNN after the previous slot:
///
///     vanilla   m = e
///     gated     m = sigmoid(G [z ; e] + b) * e
///     rnn       [g ; c ; o] = J [s ; e ; z] + b;  s' = sigmoid(g) * s + (1 - sigmoid(g)) * tanh(c);
///               m = tanh(o)
///
/// The slot's logits are the logits of z plus W2 m. The confidence is sigmoid(C [z ; e] + d) or
/// sigmoid(C z + d).
///
/// A row of the memory is [s ; e ; z ; e ; result of `mix` ; m], with `width()` values.
class markov_rows {
 public:
  markov_rows(const markov_weights& weights, std::uint32_t hidden_size)
      : weights_(weights), rank_(weights.rank), hidden_(hidden_size) {}

  std::size_t width() const noexcept { return 7 * std::size_t{rank_} + hidden_; }
  /// Memory of the rows, [num_rows][width()].
  void place(float* at, std::uint32_t num_rows) noexcept { at_ = at, num_rows_ = num_rows; }
  /// Where the caller writes s (except for the first slot, see `begin_states`) and z.
  value_rows state() const noexcept { return part(0); }
  value_rows hidden() const noexcept { return part(2 * rank_); }
  /// m, after `run`. `run` also replaces `state()` by s'.
  value_rows term() const noexcept { return part(6 * std::size_t{rank_} + hidden_); }

  /// rnn: sets s of all rows to the state before the first slot.
  void begin_states(device::ops& ops) const;
  /// Computes m and, for rnn, s' of all rows. `tokens`: for each row, the token before its slot.
  void run(device::ops& ops, std::span<const token_id> tokens) const;

 private:
  value_rows part(std::size_t offset) const noexcept { return {at_ + offset, width()}; }
  value_rows embedded() const noexcept { return part(rank_); }
  value_rows mixed() const noexcept { return part(3 * std::size_t{rank_} + hidden_); }
  void mix_gated(device::ops& ops) const;
  void mix_rnn(device::ops& ops) const;

  const markov_weights& weights_;
  std::uint32_t rank_;
  std::uint32_t hidden_;
  float* at_ = nullptr;
  std::uint32_t num_rows_ = 0;
};

/// Writes to `out` [num_rows] the confidences of the rows `states`, each [z ; e].
void make_confidences(device::ops& ops, const markov_weights& weights, const value_rows& states,
                      std::uint32_t num_rows, float* out);

} // namespace paceline::model

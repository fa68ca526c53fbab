#include "runtime/model/heads/dflash/markov_head.hpp"

#include "runtime/device/op_elementwise.hpp"
#include "runtime/device/op_embed.hpp"
#include "runtime/device/op_glu.hpp"

namespace paceline::model {

using device::activation;

std::uint64_t markov_weights::size_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto* part : {&previous, &logits, &mix, &confidence})
    if (*part) bytes += (*part)->size_bytes();
  return bytes;
}

void markov_rows::begin_states(device::ops& ops) const {
  if (weights_.kind == markov_kind::rnn)
    ops.gather({state().at, width(), weights_.zeros, 0, nullptr, num_rows_, rank_});
}

void markov_rows::run(device::ops& ops, std::span<const token_id> tokens) const {
  if (weights_.kind == markov_kind::none) return;
  ops.embed({weights_.previous.get(), tokens, embedded().at, width(), 1});
  const value_rows again = part(2 * std::size_t{rank_} + hidden_); // the part after z
  ops.gather({again.at, width(), embedded().at, width(), nullptr, num_rows_, rank_});
  if (weights_.kind == markov_kind::vanilla)
    ops.gather({term().at, width(), embedded().at, width(), nullptr, num_rows_, rank_});
  else if (weights_.kind == markov_kind::gated)
    mix_gated(ops);
  else
    mix_rnn(ops);
}

void markov_rows::mix_gated(device::ops& ops) const {
  product(ops, hidden(), num_rows_, *weights_.mix, weights_.mix_bias, mixed());
  ops.glu({mixed().at, embedded().at, width(), term().at, width(), num_rows_, rank_, activation::sigmoid});
}

void markov_rows::mix_rnn(device::ops& ops) const {
  product(ops, state(), num_rows_, *weights_.mix, weights_.mix_bias, mixed());
  float* const gate = mixed().at;
  float* const candidate = gate + rank_;
  ops.glu({candidate + rank_, nullptr, width(), term().at, width(), num_rows_, rank_, activation::tanh});
  activate(ops, {candidate, width()}, rank_, num_rows_, activation::tanh);
  ops.glu({gate, candidate, width(), candidate, width(), num_rows_, rank_, activation::sigmoid_of_minus});
  ops.glu({gate, state().at, width(), state().at, width(), num_rows_, rank_, activation::sigmoid});
  ops.add({state().at, width(), candidate, width(), num_rows_, rank_});
}

void make_confidences(device::ops& ops, const markov_weights& weights, const value_rows& states,
                      std::uint32_t num_rows, float* out) {
  product(ops, states, num_rows, *weights.confidence, weights.confidence_bias, {out, 1});
  activate(ops, {out, num_rows}, num_rows, 1, activation::sigmoid);
}

} // namespace paceline::model

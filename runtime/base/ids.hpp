#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace paceline {

/// A number that names one kind of thing and does not convert to another kind. Same size and layout as `Rep`,
/// so kernels can use arrays of ids as arrays of numbers.
template <class Tag, class Rep>
struct strong_id {
  using rep = Rep;
  Rep value{};

  constexpr strong_id() = default;
  constexpr explicit strong_id(Rep v) noexcept : value(v) {}
  friend constexpr auto operator<=>(const strong_id&, const strong_id&) = default;
};

template <class Tag, class Rep>
std::string to_string(strong_id<Tag, Rep> id) {
  return std::to_string(id.value);
}

/// One client request during the life of an engine; never reused.
using request_id = strong_id<struct request_id_tag, std::uint64_t>;
/// Generation of a worker or of a request's lease. Each restart and each new lease gets a greater one, so
/// messages from an earlier generation can be recognised.
using epoch = strong_id<struct epoch_tag, std::uint32_t>;
/// One draft-verify-commit round of one batch group.
using round_id = strong_id<struct round_id_tag, std::uint64_t>;
/// One of the batch groups in flight.
using group_id = strong_id<struct group_id_tag, std::uint32_t>;
/// One of the engine's models, in the order of the configuration.
using model_number = strong_id<struct model_number_tag, std::uint32_t>;
/// One of a model's drafters: `plain_decoding` first, then the configured drafters in their order.
using drafter_index = strong_id<struct drafter_index_tag, std::uint32_t>;
/// The drafter "none", which every model has and which drafts nothing.
inline constexpr drafter_index plain_decoding{0};
/// One of a model's KV pools: `target_pool` first, then one for each drafter with a KV cache of its own.
using pool_number = strong_id<struct pool_number_tag, std::uint32_t>;
inline constexpr pool_number target_pool{0};
/// Row of one forward pass.
using batch_row = strong_id<struct batch_row_tag, std::uint32_t>;
/// Fixed-size unit of KV memory in one pool.
using block_id = strong_id<struct block_id_tag, std::uint32_t>;
/// Transformer layer, from 0.
using layer_index = strong_id<struct layer_index_tag, std::uint32_t>;
/// Entry of a vocabulary. Negative values never name a token.
using token_id = strong_id<struct token_id_tag, std::int32_t>;
/// Index of the KV cell that stores the keys and values of a row. Cells are counted over the blocks of the
/// sequence, in the order of its block table. In a chain, slot and position are equal. In a tree, rows of the
/// same position have different slots.
using kv_slot = strong_id<struct kv_slot_tag, std::uint32_t>;

/// A place in a KV pool for one recurrent state of a sequence, in models that have such states.
using state_slot = strong_id<struct state_slot_tag, std::uint32_t>;

/// Absolute index of a token in its sequence, prompt included, from 0. The only id with arithmetic.
struct token_position : strong_id<struct token_position_tag, std::uint32_t> {
  using strong_id::strong_id;
  friend constexpr auto operator<=>(const token_position&, const token_position&) = default;
  friend constexpr token_position operator+(token_position p, std::uint32_t n) noexcept {
    return token_position{p.value + n};
  }
};

static_assert(sizeof(token_id) == sizeof(std::int32_t));

} // namespace paceline

template <class Tag, class Rep>
struct std::hash<paceline::strong_id<Tag, Rep>> {
  std::size_t operator()(paceline::strong_id<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value);
  }
};

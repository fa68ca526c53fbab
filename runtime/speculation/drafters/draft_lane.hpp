#pragma once

#include "runtime/speculation/drafters/drafter.hpp"
#include "runtime/speculation/drafters/model_session.hpp"
#include "runtime/speculation/trees/candidate_tree.hpp"
#include "runtime/speculation/trees/tree_shape.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace paceline::speculation {

/// How a model's row becomes draft tokens.
enum class token_choice : std::uint8_t {
  /// The request's own choice, for rule `coupled`: a sample with its noise; at temperature 0 the likeliest.
  own_sample,
  likeliest, ///< the highest score: a choice without randomness
  drawn,     ///< drawn with noise of purpose `draft`; the distribution is reported
  own_best,  ///< the likeliest token of the drafter's own vocabulary, independent of the request
};

/// One request's draft while it is being made.
struct draft_lane {
  draft_task* task = nullptr;
  model_session* session = nullptr;
  std::span<const token_id> context; ///< the request's text in the drafter's own vocabulary
  tree_shape shape;
  tree_bounds bounds;               ///< depth 0: no draft
  std::size_t max_branches = 0;     ///< cells for draft tokens in the drafter's lease
  std::uint32_t num_block_rows = 0; ///< rows after the newest row of the text (`model::head_traits`)
  std::uint32_t block_size = 0;     ///< of the drafter's pool
  token_choice choice = token_choice::own_sample;
  bool is_drafted = false;     ///< only `finish_draft` is left to do
  bool has_equal_rows = false; ///< all nodes of a level have the same logits, as in a parallel head

  candidate_tree candidates;
  std::vector<std::int32_t> branches; ///< for each candidate its branch in the session, or `not_fed`
  std::vector<draft_distribution> distributions; ///< for each candidate; for choice `drawn` only
  std::vector<expansion> wanted;                 ///< candidates whose rows the next pass computes, in order
  /// [levels][own vocabulary]: a part of each level's logits, to which the rows of the draft add a term
  /// (`head_traits::adds_to_levels`).
  std::vector<float> level_logits;
  std::vector<token_id> guesses;                 ///< for a cascade: guessed tokens that the next pass feeds
  std::vector<std::vector<token_id>> alternates; ///< for each candidate of a chain, if the task asks for them

  static constexpr std::int32_t not_fed = -2;

  /// Index of a slot's cell in the drafter's pool.
  std::uint32_t cell_at(std::int32_t slot) const noexcept {
    const kv_slot at{static_cast<std::uint32_t>(slot)};
    return static_cast<std::uint32_t>(device::cell_of({task->blocks}, at, block_size));
  }
  /// False if all rows of `wanted` are equal and processed equally: `add_candidates` then reads only one.
  bool needs_each_row() const noexcept;
  std::uint32_t depth() const noexcept {
    return candidates.empty() ? 0 : candidates.nodes().back().depth + 1;
  }
};

/// Returns the logits after candidate wanted[index], over the target's vocabulary (for choice `own_best`:
/// over the drafter's own). Scratch memory, valid until the next call.
using logits_row = std::function<std::span<float>(std::size_t index)>;

/// The context of the row after `path`, which consists of draft tokens of the task.
sampling::row_context row_below(const draft_task& task, std::span<const token_id> path);

/// Adds the children of all candidates in `wanted`, from their rows. A row without a finite score gives no
/// children.
void add_candidates(draft_lane& lane, const tree_shape& shape, const logits_row& rows);

/// Writes the finished draft to the task's result.
void finish_draft(draft_lane& lane, const tree_shape& shape);

/// Drawn tokens, and for each the distribution from which it was drawn.
struct drawn_tokens {
  /// The weight is the probability before earlier tokens were removed from the distribution.
  std::vector<sampling::ranked_token> tokens;
  std::vector<draft_distribution> distributions;
};
/// `count` tokens drawn from `from` one after another without replacement: each from `from` without the
/// earlier tokens. Adds one Gumbel variate to each log-probability; the tokens in descending order of these
/// sums have this distribution (Kool et al. 2019, section 2.2). Fewer if `from` has fewer tokens.
drawn_tokens draw_without_replacement(const draft_distribution& from, const noise_stream& noise,
                                      std::size_t count);
/// `count` tokens drawn independently from `from`, each with the noise of its own place (`draft_place`).
drawn_tokens draw_independently(const draft_distribution& from,
                                const std::function<noise_stream(std::uint32_t sibling)>& noise,
                                std::uint32_t count);

} // namespace paceline::speculation

#pragma once

#include "runtime/model/heads/draft_head.hpp"
#include "runtime/speculation/drafters/draft_lane.hpp"
#include "runtime/speculation/drafters/registry.hpp"
#include "runtime/speculation/drafters/vocabulary_bridge.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace paceline::speculation {

/// How a drafter with a model drafts. Immutable.
struct model_drafter_settings {
  tree_shape shape = {};
  bool widens_for_beams = false;                        ///< as in `drafter_traits`; for chains only
  std::uint32_t max_tree_nodes = token_tree::max_nodes; ///< most nodes of a tree that is not a chain
  float entropy_smoothing = 0.5F;                       ///< for rule `entropy`
  std::uint32_t entropy_min_length = 1;                 ///< for rule `entropy`
  float confidence_threshold = 0; ///< for heads with confidences; 0: confidences are not used
  bool greedy = false;            ///< draft the likeliest tokens under any rule and temperature
  std::shared_ptr<const vocabulary_bridge> bridge = {}; ///< null: the vocabulary is the target's
  std::shared_ptr<drafter> inner = {}; ///< of a cascade: the inner drafter (inner_guesses.hpp)
  bool reads_target_cells = false;     ///< as in `drafter_traits`
};

/// The network that drafts: either a model or a head.
struct draft_network {
  std::shared_ptr<const model::language_model> model = {}; ///< reads tokens
  std::shared_ptr<const model::draft_head> head = {};      ///< reads tokens and the target's hidden states

  const model::kv_model& either() const noexcept {
    return head ? static_cast<const model::kv_model&>(*head) : *model;
  }
  /// The traits of the head; for a model the default traits, which set no limits.
  model::head_traits traits() const noexcept { return head ? head->traits() : model::head_traits{}; }
  /// Number of tokens that have an embedding; larger ids must not be fed.
  std::uint32_t num_tokens() const noexcept { return head ? head->num_embedded() : model->info().vocab_size; }
};

/// A model or a head makes the draft level by level, with one pass for each level over all requests of the
/// batch. Runs on its own worker and stream with its own KV pool. Kinds "model" (a smaller model), "self"
/// (layers of the target), "cascade" (a smaller model whose tokens another drafter guesses), and those with
/// trained heads (docs/drafters.md).
///
/// A head's row i pairs token i + 1 with the target's hidden states of position i, so its text is the
/// request's without the first token. Cells of draft tokens are computed from the head's own hidden states;
/// if the tokens are accepted, their cells are computed again from the target's hidden states. If a head has
/// block rows (`model::head_traits`), the pass that catches up with the text also computes the block rows and
/// thus makes the draft. The cells of accepted tokens are then computed again, too.
///
/// Rule `coupled`: draft tokens are the request's own sample (with the target's noise) from this model's row,
/// processed by the request's pipeline, and in trees also the next-ranked tokens. If both models agree on the
/// distribution, they agree on the token. Chains under this rule are made in one launch if the device
/// supports it (chained_draft.hpp).
///
/// Other rules: tokens are drawn with noise of purpose `draft`, siblings without replacement, from the
/// processed distribution truncated to 64 entries, which is reported. The shape of the tree depends only on
/// what was known before a token was drawn. With `greedy`, the draft has the likeliest tokens under any rule.
class model_drafter final : public drafter {
 public:
  /// Largest number of committed tokens (such as prompts of new requests) that one call processes to catch
  /// up, over all tasks.
  static constexpr std::uint32_t max_catch_up = 512;

  model_drafter(const config::drafter_options& options, draft_network network,
                std::uint32_t target_vocab_size, model_drafter_settings settings = {});

  const drafter_traits& traits() const noexcept override { return traits_; }
  std::unique_ptr<drafter_session> open(request_id request) override;
  void propose(device::ops& ops, model::kv_storage* kv, std::span<draft_task> tasks) override;
  std::uint32_t max_nodes(std::uint32_t draft_length) const noexcept override;
  std::uint32_t own_positions(std::uint32_t draft_length) const noexcept override;
  const model::kv_model* own_model() const noexcept override {
    return network_.traits().has_cells ? &network_.either() : nullptr;
  }

 private:
  struct pass;

  draft_lane open_lane(draft_task& task, const model::kv_storage* kv) const;
  void settle(device::ops& ops, model::kv_storage* kv, std::vector<draft_lane>& lanes) const;
  void draft_chains(device::ops& ops, model::kv_storage& kv, std::vector<draft_lane>& lanes) const;
  void plan_catch_up(device::ops& ops, std::vector<draft_lane>& lanes, pass& next) const;
  std::span<const token_id> text_of(const draft_task& task, model_session& session, std::uint64_t room) const;
  void feed_context(draft_lane& lane, std::size_t lane_index, std::size_t count, pass& next) const;
  void feed_branch(draft_lane& lane, std::size_t lane_index, token_id token, std::int32_t parent,
                   pass& next) const;
  void feed_block(draft_lane& lane, std::size_t lane_index, pass& next) const;
  token_id known(token_id token) const;
  void feed_guesses(device::ops& ops, draft_lane& lane, std::size_t lane_index, pass& next) const;
  void feed_level(device::ops& ops, draft_lane& lane, std::size_t lane_index, pass& next) const;
  void run(device::ops& ops, model::kv_storage* kv, std::vector<draft_lane>& lanes, pass& next);
  void take_parallel_rows(draft_lane& lane, std::size_t first_row);
  std::span<float> own_row(std::size_t logit_row);
  std::span<float> scores_of(std::size_t logit_row);
  void take_rows(draft_lane& lane, std::size_t first_row);
  void complete_rows(draft_lane& lane, std::size_t first_row);
  bool is_sure(std::size_t logit_row) const;
  std::vector<std::size_t> sure_rows(draft_lane& lane, std::size_t first_row) const;
  void mind_entropy(draft_lane& lane, std::span<const float> scores) const;

  drafter_traits traits_;
  draft_network network_;
  std::uint32_t target_vocab_size_;
  model_drafter_settings settings_;
  // Scratch of one pass; `propose` is called from one stream at a time.
  std::vector<float> logits_;
  /// For each row whose logits are read; empty: the head has no confidences, or they are not used.
  std::vector<float> confidences_;
  std::vector<float> translated_; ///< a row of the target's vocabulary
  std::uint32_t num_levels_ = 1;  ///< rows of logits that the pass gives for each row whose logits are read
};

/// Needs `own_model`; error without it.
expected<std::unique_ptr<drafter>> make_model_drafter(const drafter_parts& parts);

/// For kinds that draft with a trained head. Needs `own_head`; error without it.
expected<std::unique_ptr<drafter>> make_head_drafter(const drafter_parts& parts);

/// Kind "cascade": drafts the same tokens as the model alone, in fewer passes (hierarchical drafting,
/// Leviathan et al. 2023, section 5). Another drafter (option `inner`: an n-gram lookup or another in-line
/// kind) guesses draft tokens. One pass computes the rows of several guesses, and the rows up to the first
/// wrong guess are used. Guesses only change the number of passes.
expected<std::unique_ptr<drafter>> make_cascade_drafter(const drafter_parts& parts);

/// Kind "self": drafts with some of the target's layers and the target's final norm and head, whose weights
/// it shares. It has a KV pool of its own. If the layers are the target's first ones, cells of committed
/// tokens are copied from the target's pool (target_prefix.hpp), else the drafter computes them.
expected<std::unique_ptr<drafter>> make_self_drafter(const drafter_parts& parts);

} // namespace paceline::speculation

#pragma once

#include "runtime/device/fence.hpp"
#include "runtime/model/language_model.hpp"
#include "runtime/rounds/draft_sessions.hpp"
#include "runtime/sampling/token_counts.hpp"
#include "runtime/scheduling/round.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace paceline::rounds {

/// Drafts for verdicts that are not known yet.
///
/// While a round is verified, its drafter continues from possible outcomes of that round: "the first j draft
/// tokens are kept and the target's next token is x". If one of them is the verdict, the next round's draft
/// already exists; otherwise the drafter drafts as usual. Mode `ahead` has one outcome: all tokens are kept,
/// and the drafter's own guess follows them (PEARL, Liu et al. 2025, post-verify; AMUSD, McDanel 2024). Mode
/// `outcomes` has several, likeliest first (SSD, Kumar et al. 2026, section 3).
///
/// A draft made in advance has the same bits as the draft that would be made afterwards: it follows the same
/// tokens, with the same noise, within the same bounds. Overlap only changes when drafts are made, so no rule
/// needs to know about it.
///
/// Threads: used by programs of the drafter's stream. `draft` runs at the same time as programs of the
/// target, which write the logs, so it reads no tokens of a log.
class foreseen_drafts {
 public:
  /// `sessions` must outlive this object. The other arguments are those of `draft_runner`.
  foreseen_drafts(speculation::drafter& drafter, drafter_index index, draft_sessions& sessions,
                  model::kv_storage* kv, std::uint32_t target_block_size, std::uint32_t context_length,
                  std::uint32_t num_guesses, const clock& time);

  /// Called after the verdict: returns the draft for `item` of `plan` if the verdict was foreseen, else
  /// nullopt. The session of that draft becomes the request's session, and its cells are copied to the blocks
  /// of the text. Updates `num_foreseen` and `num_ready` of `batch`.
  std::optional<speculation::draft> take(device::ops& ops, const scheduling::round_plan& plan,
                                         const scheduling::plan_item& item, scheduling::draft_batch& batch);
  /// Stores the drafts that round `plan` will verify, one for each item. The next `draft` continues from
  /// them. Forgets the drafts of the group's previous round.
  void remember(const scheduling::round_plan& plan, std::span<const speculation::draft> drafts);
  /// Forgets requests that are over. `remember` does not suffice for this, because their group may have no
  /// further round.
  void drop_ended();
  /// Forgets all requests: the drafter will not be asked again.
  void drop_all();
  /// Called before the verdict, which is known once fence `verdict` passes: makes drafts for round `next`.
  /// Makes none if the fence has passed before the call, or if it passes during the first step, in which the
  /// drafter guesses the token after each whole draft. If the drafter fails, there are no drafts. The failure
  /// is not reported; `draft_runner::run` asks the drafter again after the verdict.
  void draft(device::ops& ops, const scheduling::round_plan& next, const device::fence& verdict);

 private:
  struct outcome {
    /// Tokens committed before the verdict, then the kept draft tokens, then the target's next token.
    std::vector<token_id> text;
    sampling::token_counts counts; ///< of `text`, if the pipeline reads them
    std::vector<block_id> blocks;  ///< block table of its cells
    std::unique_ptr<speculation::drafter_session> session;
    speculation::draft result;
  };
  struct pending { ///< a request whose draft is under verification
    std::shared_ptr<const scheduling::committed_log> log;
    std::uint32_t length = 0;                      ///< number of committed tokens that the draft continues
    std::uint32_t remaining = 0;                   ///< number of tokens that may be committed after these
    std::vector<token_id> text;                    ///< committed tokens, then the likeliest path of the draft
    sampling::token_counts counts;                 ///< of the committed tokens, if the pipeline reads them
    std::vector<std::vector<token_id>> alternates; ///< `speculation::draft::alternates` of the draft
    bool chain = false;
    round_id next; ///< round for which the outcomes were drafted; their cells are in its plan's blocks
    std::vector<outcome> outcomes;

    std::uint32_t path_length() const noexcept { return static_cast<std::uint32_t>(text.size()) - length; }
  };
  struct ahead_entry {
    pending* request = nullptr;
    speculation::drafter_session* session = nullptr; ///< the request's, owned by `sessions_`
    const scheduling::plan_item* item = nullptr;
    std::vector<token_id> guesses; ///< of the token after the whole path, likeliest first
  };

  pending* find(group_id group, request_id request);
  outcome open(const pending& request, std::uint32_t num_kept, std::optional<token_id> then) const;
  speculation::draft_task task_for(const scheduling::plan_item& item, const pending& request, outcome& which,
                                   scheduling::draft_bounds limit) const;
  void guess_bonus_tokens(device::ops& ops, round_id next, std::vector<ahead_entry>& entries);
  void add_outcomes(device::ops& ops, ahead_entry& entry) const;
  void draft_outcomes(device::ops& ops, std::vector<ahead_entry>& entries, time_point begin);
  std::vector<std::pair<std::uint32_t, token_id>> likeliest(const ahead_entry& entry) const;

  speculation::drafter* drafter_;
  drafter_index index_;
  draft_sessions* sessions_;
  model::kv_storage* kv_;
  std::uint32_t target_block_size_;
  std::uint32_t context_length_;
  std::uint32_t num_guesses_;
  const clock* time_;
  bool possible_;           ///< the drafter reads nothing from the verdict except tokens
  double acceptance_ = 0.5; ///< recent share of draft tokens that were kept
  std::map<group_id, std::vector<pending>> pending_;
};

} // namespace paceline::rounds

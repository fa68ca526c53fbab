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
/// While a round is verified, its drafter goes on from outcomes of that round: "the first j draft tokens are
/// kept and the target says x behind them". If the verdict is one of them, the next round's draft is there
/// already; if not, the drafter drafts as if nothing had been tried. Of mode `ahead` there is one outcome,
/// all tokens kept and the drafter's own guess behind them (PEARL, Liu et al. 2025, post-verify; AMUSD,
/// McDanel 2024); of mode `outcomes` there are more, likeliest first (SSD, 2026, section 3).
///
/// A draft made in advance is, to the bit, the one that would have been made afterwards: after the same
/// tokens, with the same noise, within the same bounds. Overlap changes when drafts are made and nothing
/// else, so no rule knows of it.
///
/// Threads: used by programs of the drafter's stream. `draft` runs beside the target's programs and reads
/// nothing of a log, which those write.
class foreseen_drafts {
 public:
  /// `sessions`, which outlives it, `index`, `kv`, `target_block_size`, `context_length`: as of the
  /// draft_runner. `num_guesses`: of mode `outcomes`, at each place.
  foreseen_drafts(speculation::drafter& drafter, drafter_index index, draft_sessions& sessions,
                  model::kv_storage* kv, std::uint32_t target_block_size, std::uint32_t context_length,
                  std::uint32_t num_guesses);

  /// After the verdict: the draft for `item` of `plan` if the verdict was foreseen. Its session becomes the
  /// request's.
  std::optional<speculation::draft> take(device::ops& ops, const scheduling::round_plan& plan,
                                         const scheduling::plan_item& item, scheduling::draft_batch& batch);
  /// The round `plan` will verify these drafts, one an item: what `draft` goes on from. Forgets those of the
  /// group's round before.
  void remember(const scheduling::round_plan& plan, std::span<const speculation::draft> drafts);
  /// Before the verdict, which `verdict` stands for: drafts for the round after it, `next`. Gives up where
  /// the verdict comes first. A drafter that fails leaves no drafts; it will say so when it is asked again
  /// after the verdict.
  void draft(device::ops& ops, const scheduling::round_plan& next, const device::fence& verdict);

 private:
  struct outcome {
    std::vector<token_id> text; ///< committed before the verdict, then kept draft tokens, then the target's
    sampling::token_counts counts; ///< of `text`, where the pipeline reads them
    std::vector<block_id> blocks;  ///< table of its cells
    std::unique_ptr<speculation::drafter_session> session;
    speculation::draft result;
  };
  struct pending { ///< a request whose draft is under verification
    std::shared_ptr<const scheduling::request_terms> terms;
    std::uint32_t length = 0;                      ///< committed tokens that the draft continues
    std::uint32_t remaining = 0;                   ///< tokens it could commit then
    std::vector<token_id> text;                    ///< committed tokens, then the likeliest path of the draft
    sampling::token_counts counts;                 ///< of the committed ones, where the pipeline reads them
    std::vector<std::vector<token_id>> alternates; ///< as of the draft
    bool chain = false;
    speculation::drafter_session* session = nullptr; ///< the request's, which `sessions_` owns
    round_id next; ///< the round that the outcomes were drafted for, with its memory
    std::vector<outcome> outcomes;

    std::uint32_t path_length() const noexcept { return static_cast<std::uint32_t>(text.size()) - length; }
  };
  struct ahead_entry {
    pending* request = nullptr;
    const scheduling::plan_item* item = nullptr;
    std::vector<token_id> guesses; ///< behind the whole path
  };

  pending* find(group_id group, request_id request);
  outcome open(const pending& request, std::uint32_t num_kept, std::optional<token_id> then) const;
  speculation::draft_task task_for(const scheduling::plan_item& item, const pending& request, outcome& which,
                                   scheduling::draft_bounds limit) const;
  void guess_bonus_tokens(device::ops& ops, round_id next, std::vector<ahead_entry>& entries);
  void add_outcomes(device::ops& ops, ahead_entry& entry) const;
  void draft_outcomes(device::ops& ops, std::vector<ahead_entry>& entries);
  std::vector<std::pair<std::uint32_t, token_id>> likeliest(const ahead_entry& entry) const;

  speculation::drafter* drafter_;
  drafter_index index_;
  draft_sessions* sessions_;
  model::kv_storage* kv_;
  std::uint32_t target_block_size_;
  std::uint32_t context_length_;
  std::uint32_t num_guesses_;
  bool possible_;           ///< the drafter reads nothing that the verdict brings but tokens
  double acceptance_ = 0.5; ///< of draft tokens, of late
  std::map<group_id, std::vector<pending>> pending_;
};

} // namespace paceline::rounds

#pragma once

#include "runtime/model/language_model.hpp"
#include "runtime/rounds/beam_search.hpp"
#include "runtime/rounds/request_progress.hpp"
#include "runtime/scheduling/drafter_rests.hpp"
#include "runtime/scheduling/round.hpp"
#include "runtime/speculation/control/draft_controller.hpp"
#include "runtime/speculation/drafters/drafter.hpp"
#include "runtime/speculation/verification/verification.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace paceline::rounds {

/// Everything that a model's rounds use. Owned by the engine; outlives every program.
struct round_resources {
  const model::language_model* target = nullptr;
  model::kv_storage* kv = nullptr;
  std::vector<speculation::drafter*> drafters; ///< by index; null for `plain_decoding` and `automatic`
  std::uint32_t context_length = 0;
  const clock* time = nullptr;
  /// "auto", if it exists: for its items the controller chooses among the drafters in every round.
  std::optional<drafter_index> automatic = {};
  std::vector<pass_time> pass_times = {}; ///< of the target, measured at load
  /// The inputs of all drafters' probes, in the memory of the target's device (`device::row_batch::inputs`).
  const float* inputs = nullptr;
  std::uint32_t num_inputs = 0;
  /// Positions from one snapshot to the next (`scheduler_options::state_interval`); 0: no recurrent state.
  std::uint32_t state_interval = 0;
};

/// The verify program of a round: drafts of in-line drafters, one pass of the target over all rows,
/// verification, commit. One object for each target stream, used by that stream's verify programs only. Its
/// scratch memory is reused in every round.
class round_runner {
 public:
  explicit round_runner(round_resources resources);

  /// Runs `plan` and fills `result`. `drafts` has a batch for each draft worker that was asked; null: the
  /// worker was lost. If the decision of one request throws, only that request ends. If the pass throws, the
  /// round fails with all its requests (`result.failure`).
  void run(device::ops& ops, const scheduling::round_plan& plan,
           std::span<const std::shared_ptr<scheduling::draft_batch>> drafts,
           scheduling::round_result& result);

 private:
  /// One request's part of the pass.
  struct batch_part {
    const scheduling::plan_item* item = nullptr;
    drafter_index drafter = plain_decoding; ///< the drafter of its draft
    std::uint32_t first_row = 0;            ///< its first row in the pass
    std::uint32_t num_context = 0;          ///< number of committed tokens among its rows
    std::uint32_t context_begin = 0;        ///< position of the first of these
    bool decides = false;                   ///< its context is complete: the pass decides its next tokens
    speculation::draft draft;
    std::optional<draft_choice> choice_of_auto; ///< of a request that is traced
    bool stale = false;
    /// Set for a beam search, which then plans all rows after those of the prompt.
    beam_search* beams = nullptr;
    std::uint32_t first_logits = 0; ///< index of its first row of logits among those of the pass
    /// Number of prompt tokens whose logits are wanted. Their rows are before the last committed token's.
    std::uint32_t num_prompt_logits = 0;
    std::uint32_t first_prompt_position = 0; ///< position of the first of these tokens
    /// Index in `choices_` if the device decides and moves the cells of accepted nodes. The host then gets no
    /// logits.
    std::optional<std::size_t> choice;
    std::vector<device::penalised_token> counts; ///< token counts to which `choice` refers
    std::uint32_t num_drafter_cells = 0;         ///< as the worker reports (`draft_batch`)
    /// For a model with a recurrent state: the slots of its rows' states.
    struct row_states {
      std::vector<std::optional<state_slot>> of_context;
      std::vector<state_slot> of_nodes;
    } states;
  };

  std::vector<batch_part> open_parts(const scheduling::round_plan& plan);
  void collect_drafts(device::ops& ops, const scheduling::round_plan& plan,
                      std::span<const std::shared_ptr<scheduling::draft_batch>> drafts,
                      std::vector<batch_part>& parts);
  void propose_in_line(device::ops& ops, drafter_index drafter, std::vector<batch_part>& parts);
  void ask_in_line(drafter_index drafter, const std::function<void()>& propose,
                   const std::function<void()>& start_over);
  void propose_best(device::ops& ops, std::vector<batch_part>& parts);
  void ask_candidate(device::ops& ops, std::uint32_t candidate, std::span<batch_part* const> owners,
                     std::span<speculation::draft_controller::request_choice> choices);
  draft_choice told(const speculation::draft_controller::request_choice& choice) const;
  void report_drafter(request_progress& progress, speculation_stats& stats) const;
  void watch_workers(std::span<const scheduling::draft_time> drafting);
  void advise_workers(const scheduling::round_plan& plan, std::span<const batch_part> parts,
                      std::span<scheduling::item_result> results);
  std::vector<batch_part*> drafting(std::vector<batch_part>& parts, drafter_index drafter) const;
  std::vector<speculation::draft> propose(device::ops& ops, drafter_index drafter,
                                          std::span<batch_part* const> owners);
  speculation::drafter* drafter_at(drafter_index index) const { return resources_.drafters.at(index.value); }
  scheduling::draft_bounds limit_of(const batch_part& part) const;
  bool may_draft(const batch_part& part, drafter_index drafter) const;
  void add_rows(const device::ops& ops, batch_part& part);
  void add_probes(const batch_part& part, std::uint32_t sequence);
  void run_pass(device::ops& ops);
  scheduling::item_result settle(device::ops& ops, batch_part& part, round_id round,
                                 std::vector<token_event>& events);
  std::vector<std::int32_t> decide(device::ops& ops, batch_part& part, scheduling::item_result& done,
                                   round_trace& trace);
  void tell_draft(const batch_part& part, const speculation::verdict& verdict, round_trace& trace) const;
  std::uint32_t num_top_tokens(const batch_part& part) const;
  // round_states.cpp
  bool has_states() const noexcept { return resources_.state_interval != 0; }
  bool keeps_snapshot(const batch_part& part, std::uint32_t length, std::uint32_t num_spare) const;
  void add_context_states(batch_part& part);
  void add_node_states(batch_part& part);
  void add_probe_states(const batch_part& part);
  void add_beam_states(batch_part& part, std::span<const beam_search::row> rows);
  void settle_states(const batch_part& part, std::span<const std::int32_t> accepted_path,
                     scheduling::item_result& done);
  // round_choices.cpp
  void offer_to_device(const device::ops& ops, batch_part& part, std::uint32_t sequence_index);
  speculation::verdict verdict_for(const batch_part& part, std::uint32_t first_logits);
  /// Feedback for the drafter of `part`, with only the fields that follow from the raw logits; empty if the
  /// drafter needs none of these fields.
  speculation::round_feedback begin_feedback(const batch_part& part, std::uint32_t first_logits);
  // round_beams.cpp
  void propose_below_hypotheses(device::ops& ops, const scheduling::round_plan& plan,
                                std::span<const std::shared_ptr<scheduling::draft_batch>> drafts,
                                batch_part& part);
  void add_beam_rows(batch_part& part, std::uint32_t sequence);
  void decide_beams(const batch_part& part, scheduling::item_result& done);
  void report_prompt_logprobs(const batch_part& part);
  void compact(device::ops& ops, const batch_part& part, const speculation::verdict& verdict);
  std::span<float> logits_row(std::uint32_t index);

  round_resources resources_;
  std::vector<drafter_index> candidates_; ///< drafters among which "auto" chooses: in-line ones, then workers
  std::uint32_t num_in_line_ = 0;         ///< number of in-line drafters in `candidates_`
  std::optional<speculation::draft_controller> controller_;
  scheduling::drafter_rests rests_;                        ///< of in-line drafters
  std::vector<scheduling::failed_drafter> failed_in_line_; ///< in this round

  // Scratch of one pass.
  time_point pass_begin_;
  std::vector<device::batch_entry> rows_;
  std::vector<device::sequence_kv> sequences_;
  std::vector<kv_slot> paths_;
  std::vector<device::row_state> states_; ///< of the rows; empty if the model has none
  std::vector<std::uint32_t> logit_rows_;
  std::vector<float> logits_;
  std::vector<std::uint32_t> choice_rows_; ///< rows whose logits stay on the device, which chooses
  std::vector<device::token_choice> choices_;
  std::vector<device::chosen_run> chosen_;
  /// The trees among the drafts that the device decides: the device also moves their cells.
  std::vector<device::drafted_cells> drafted_;
  std::vector<float> raw_copy_;
  std::vector<sampling::candidate> best_;
};

} // namespace paceline::rounds

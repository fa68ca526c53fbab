#include "runtime/rounds/round_runner.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/final_event.hpp"
#include "runtime/device/stopwatch.hpp"
#include "runtime/kv/compaction.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

namespace paceline::rounds {

namespace {

/// No token can follow.
struct no_token_error final : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Why a request ends early. A client's grammar may take too much work; everything else is a fault of ours.
error failure_of(const request_progress& progress, const std::exception& e) {
  const bool has_no_token = dynamic_cast<const no_token_error*>(&e) != nullptr;
  if (has_no_token && progress.has_exhausted_constraint())
    return {errc::invalid_argument, "the constraint takes too much work for the text after " +
                                        std::to_string(progress.log().output_length()) + " tokens"};
  return {errc::internal, std::string("request failed: ") + e.what()};
}

} // namespace

using namespace scheduling; // plans, results and requests

round_runner::round_runner(round_resources resources) : resources_(std::move(resources)) {
  if (!resources_.automatic) return;
  const auto add_candidates = [&](speculation::placement where) {
    for (drafter_index d{1}; d.value < resources_.drafters.size(); ++d.value)
      if (const auto* drafter = drafter_at(d); drafter && drafter->traits().where == where)
        candidates_.push_back(d);
  };
  add_candidates(speculation::placement::in_line);
  add_candidates(speculation::placement::in_pass);
  num_in_line_ = static_cast<std::uint32_t>(candidates_.size());
  add_candidates(speculation::placement::worker);
  std::vector<speculation::acceptance_table::prior> priors;
  for (const auto candidate : candidates_) priors.push_back(drafter_at(candidate)->traits().first_acceptance);
  controller_.emplace(priors, num_in_line_);
  controller_->calibrate(resources_.pass_times);
}

/// Number of levels of the deepest draft.
static std::uint32_t num_levels(const draft_batch& batch) {
  std::uint32_t most = 0;
  for (const auto& draft : batch.drafts)
    for (const auto depth : draft.tree.depths()) most = std::max(most, depth + 1);
  return most;
}

/// The report for a request that had ended when its round began.
static item_result ended_before(const plan_item& item) {
  item_result said;
  said.request = item.request.id();
  said.drafter = item.drafter;
  said.length = item.request.log->length();
  said.kv_length = item.request.progress->kv_length();
  said.finish = item.request.log->finish();
  return said;
}

void round_runner::run(device::ops& ops, const round_plan& plan,
                       std::span<const std::shared_ptr<draft_batch>> drafts, round_result& result) {
  result.started = true;
  result.round = plan.round;
  result.group = plan.group;
  const device::stopwatch since_begin(ops, *resources_.time);
  auto parts = open_parts(plan);
  try {
    for (const auto& batch : drafts)
      if (const auto levels = batch ? num_levels(*batch) : 0; levels > 0)
        result.drafting.push_back({batch->drafter, levels, batch->duration, batch->num_foreseen,
                                   batch->num_ready, batch->num_drafted, batch->catching_up});
    if (controller_) watch_workers(result.drafting);
    failed_in_line_.clear();
    rests_.wake(resources_.time->now());
    collect_drafts(ops, plan, drafts, parts);
    std::ranges::copy(failed_in_line_, std::back_inserter(result.failed_drafters));
    result.times.draft = since_begin.elapsed();
    pass_begin_ = resources_.time->now();
    rows_.clear(), sequences_.clear(), paths_.clear(), logit_rows_.clear(), choice_rows_.clear(),
        choices_.clear();
    drafted_.clear(), states_.clear();
    for (auto& part : parts) {
      if (!part.item->copies.empty()) resources_.kv->copy(ops, part.item->copies);
      add_rows(ops, part);
    }
    if (!rows_.empty()) run_pass(ops);
    result.times.pass = since_begin.elapsed() - result.times.draft;
  } catch (const std::exception& e) {
    result.failure = error{errc::internal, std::string("round ") + to_string(plan.round) + ": " + e.what()};
    return;
  }
  for (auto& part : parts) result.items.push_back(settle(ops, part, plan.round, result.events));
  if (controller_) advise_workers(plan, parts, result.items);
  // Items that had ended before are reported again, in case that report was lost.
  for (const auto& item : plan.items)
    if (item.request.log->finish() != finish_reason::none &&
        std::ranges::none_of(parts, [&](const auto& part) { return part.item == &item; }))
      result.items.push_back(ended_before(item));
  // All events get the time after the last decision of the round, and not the time of their own request's
  // decision.
  const auto ended = resources_.time->now();
  for (auto& event : result.events) event.committed_at = ended;
  result.num_rows = static_cast<std::uint32_t>(rows_.size());
  result.duration = since_begin.elapsed();
  result.times.decide = result.duration - result.times.draft - result.times.pass;
  const bool decoding =
      std::ranges::all_of(parts, [](const auto& part) { return part.decides && part.num_context == 1; });
  if (controller_ && decoding)
    controller_->observe(result.num_rows, static_cast<double>(result.times.pass.count()));
}

std::vector<round_runner::batch_part> round_runner::open_parts(const round_plan& plan) {
  const auto now = resources_.time->now();
  std::vector<batch_part> parts;
  for (const auto& item : plan.items) {
    const auto& log = *item.request.log;
    auto& progress = *item.request.progress;
    if (log.finish() != finish_reason::none)
      continue; // the request ended in a round that was still in flight when this one was planned
    if (item.restart_at) progress.restart_at(*item.restart_at, item.num_cached_tokens, item.admission);
    if (item.restart_at && item.states) progress.states().restart(*item.states, item.num_row_states);
    progress.begin_round(now);
    batch_part part;
    part.item = &item;
    part.drafter = item.drafter;
    part.context_begin = progress.kv_length();
    part.num_context = std::min(item.max_rows, log.length() - progress.kv_length());
    part.beams = progress.beams();
    if (part.beams && part.beams->prompt_is_computed()) part.num_context = 0;
    part.decides =
        (part.beams && part.num_context == 0) || part.context_begin + part.num_context == log.length();
    parts.push_back(std::move(part));
  }
  return parts;
}

/// Observes the times of workers, by which the drafters to ask are chosen.
void round_runner::watch_workers(std::span<const draft_time> drafting) {
  for (const auto& spent : drafting) {
    const auto candidate = std::ranges::find(candidates_, spent.drafter) - candidates_.begin();
    if (candidate == std::ssize(candidates_)) continue;
    const double each = static_cast<double>(spent.duration.count()) / spent.num_levels;
    controller_->observe_drafting(static_cast<std::uint32_t>(candidate), each, spent.catching_up);
  }
}

void round_runner::add_rows(const device::ops& ops, batch_part& part) {
  const auto& request = part.item->request;
  const auto& log = *request.log;
  const auto index = static_cast<std::uint32_t>(sequences_.size());
  sequences_.push_back({part.item->blocks});
  part.first_row = static_cast<std::uint32_t>(rows_.size());
  part.first_logits = static_cast<std::uint32_t>(logit_rows_.size());
  offer_to_device(ops, part, index);
  auto& wanted_rows = part.choice ? choice_rows_ : logit_rows_;
  const auto reported = request.progress->num_prompt_logprobs(); // a prompt that was preempted is computed
                                                                 // twice, but its scores are reported once
  const bool want_prompt = request.terms->request().sampling.prompt_logprobs;
  for (std::uint32_t i = 0; i < part.num_context; ++i) {
    const auto position = part.context_begin + i;
    const bool last = position + 1 == log.length();
    const bool report = want_prompt && position >= reported && position + 1 < request.terms->prompt_length();
    if (last || report) {
      if (!last && part.num_prompt_logits++ == 0) part.first_prompt_position = position;
      wanted_rows.push_back(static_cast<std::uint32_t>(rows_.size()));
    }
    rows_.push_back({log.tokens()[position], token_position{position}, kv_slot{position}, index, 0, 0});
  }
  if (has_states()) add_context_states(part);
  if (part.beams) return add_beam_rows(part, index);
  const auto& tree = part.draft.tree;
  const bool chain = tree.is_chain();
  for (std::uint32_t n = 0; n < tree.size(); ++n) {
    const auto position = log.length() + tree.depths()[n];
    device::batch_entry row{
        tree.tokens()[n], token_position{position}, kv_slot{log.length() + n}, index, 0, 0};
    if (!chain) {
      row.path_begin = static_cast<std::uint32_t>(paths_.size());
      for (auto node : tree.path_to(static_cast<std::int32_t>(n)))
        paths_.push_back(kv_slot{log.length() + static_cast<std::uint32_t>(node)});
      row.path_length = tree.depths()[n] + 1;
    }
    wanted_rows.push_back(static_cast<std::uint32_t>(rows_.size()));
    rows_.push_back(row);
  }
  if (has_states()) add_node_states(part);
  add_probes(part, index);
  if (has_states()) add_probe_states(part);
}

/// Adds the rows of probes. They are placed after the tree's nodes, because they attend to the nodes' cells.
void round_runner::add_probes(const batch_part& part, std::uint32_t sequence) {
  const auto length = part.item->request.log->length();
  auto slot = length + part.draft.tree.size();
  for (const auto& [token, parent, depth] : part.draft.probes) {
    const auto own = static_cast<std::int32_t>(slot - length);
    device::batch_entry row{token, token_position{length + depth}, kv_slot{slot++}, sequence, 0, 0};
    row.path_begin = static_cast<std::uint32_t>(paths_.size());
    for (const auto above : part.draft.path_to(own))
      paths_.push_back(kv_slot{length + static_cast<std::uint32_t>(above)});
    row.path_length = depth + 1;
    logit_rows_.push_back(static_cast<std::uint32_t>(rows_.size()));
    rows_.push_back(row);
  }
}

void round_runner::run_pass(device::ops& ops) {
  const auto& info = resources_.target->info();
  logits_.resize(logit_rows_.size() * info.vocab_size);
  chosen_.resize(choices_.size());
  const model::device_choices choices{choice_rows_, choices_, chosen_, drafted_};
  resources_.target->forward(
      ops, {rows_, sequences_, paths_, resources_.inputs, resources_.num_inputs, states_}, *resources_.kv,
      {logit_rows_, logits_, {}, choices_.empty() ? nullptr : &choices});
}

std::span<float> round_runner::logits_row(std::uint32_t index) {
  const std::size_t vocab = resources_.target->info().vocab_size;
  return std::span(logits_).subspan(index * vocab, vocab);
}

item_result round_runner::settle(device::ops& ops, batch_part& part, round_id round,
                                 std::vector<token_event>& events) {
  auto& progress = *part.item->request.progress;
  const auto& log = progress.log();
  item_result done;
  done.request = part.item->request.id();
  done.drafter = part.drafter;
  done.num_rows = part.num_context + part.draft.num_rows();
  done.stale_draft = part.stale;
  done.num_drafter_cells = part.num_drafter_cells;
  round_trace trace;
  trace.round = round;
  trace.base_length = log.length();
  std::vector<std::int32_t> accepted;
  try {
    report_prompt_logprobs(part);
    if (part.decides && log.remaining() == 0) {
      progress.finish_prompt_only();
    } else if (part.beams) {
      decide_beams(part, done);
    } else if (part.decides) {
      accepted = decide(ops, part, done, trace);
    }
    // In a beam search, only the prompt's cells are in order.
    const auto num_computed = part.context_begin + part.num_context + (part.beams ? 0 : done.num_accepted);
    progress.set_kv_length(std::min(num_computed, (part.beams ? trace.base_length : log.length()) - 1));
    if (has_states()) settle_states(part, accepted, done);
    const auto committed = log.tokens().subspan(trace.base_length);
    done.committed.assign(committed.begin(), committed.end());
    const auto decided = resources_.time->now();
    trace.verified = part.item->request.terms->since_submission({pass_begin_, decided});
    auto event = progress.end_round(std::move(trace), decided);
    if (event.speculation) report_drafter(progress, *event.speculation);
    if (!event.tokens.empty() || !event.prompt_logprobs.empty() || event.finish != finish_reason::none)
      events.push_back(std::move(event));
    done.finish = log.finish();
  } catch (const std::exception& e) {
    events.push_back(final_event(part.item->request.id(), finish_reason::error, failure_of(progress, e)));
    done.finish = finish_reason::error;
  }
  done.length = log.length();
  done.kv_length = progress.kv_length();
  return done;
}

void round_runner::report_prompt_logprobs(const batch_part& part) {
  const auto& request = part.item->request.terms->request();
  if (!request.sampling.prompt_logprobs) return;
  const auto num_top = request.sampling.num_logprobs.value_or(0);
  for (std::uint32_t i = 0; i < part.num_prompt_logits; ++i) {
    const auto token = part.item->request.log->tokens()[part.first_prompt_position + i + 1];
    auto raw = sampling::log_softmax_of(logits_row(part.first_logits + i), token, num_top);
    part.item->request.progress->add_prompt_logprob({token, raw.chosen, std::move(raw.top)});
  }
}

/// Returns the accepted draft nodes that became tokens.
std::vector<std::int32_t> round_runner::decide(device::ops& ops, batch_part& part, item_result& done,
                                               round_trace& trace) {
  const auto& request = part.item->request.terms->request();
  auto& progress = *part.item->request.progress;
  const auto& log = progress.log();
  const auto first = part.first_logits + part.num_prompt_logits; // row of the last committed token
  const auto num_logprobs = request.sampling.num_logprobs;
  const std::size_t vocab = resources_.target->info().vocab_size;
  if (num_logprobs) {
    const auto rows = std::span(logits_).subspan(first * vocab, (1 + part.draft.tree.size()) * vocab);
    raw_copy_.assign(rows.begin(), rows.end());
  }
  // This is done before the verification rule, which modifies the rows.
  auto feedback = begin_feedback(part, first);
  auto verdict = verdict_for(part, first);
  if (verdict.hopeless)
    throw no_token_error("no logit behind the token at position " + std::to_string(log.length() - 1) +
                         ", or behind its draft, is finite");
  if (request.first_target && log.output_length() == 0) verdict = {{}, *request.first_target, false};

  const auto& tree = part.draft.tree;
  // Where the device has decided (`choice`), it has moved the cells, too.
  if (!tree.is_chain() && !part.choice) compact(ops, part, verdict);

  const auto logprob_of = [&](std::int32_t node, token_id token) -> std::optional<token_logprob> {
    if (!num_logprobs) return std::nullopt;
    const auto raw =
        std::span<const float>(raw_copy_).subspan(static_cast<std::size_t>(node + 1) * vocab, vocab);
    auto values = sampling::log_softmax_of(raw, token, *num_logprobs);
    return token_logprob{token, values.chosen, std::move(values.top)};
  };
  part.draft.base_length = log.length();
  std::int32_t parent = speculation::token_tree::root;
  bool goes_on = true;
  for (auto node : verdict.accepted_path) {
    const auto token = tree.tokens()[static_cast<std::size_t>(node)];
    goes_on = progress.commit(token, logprob_of(parent, token));
    ++done.num_accepted;
    if (!goes_on) break;
    parent = node;
  }
  if (goes_on) progress.commit(verdict.next, logprob_of(parent, verdict.next));

  done.num_draft = part.draft.tree.size();
  for (std::uint32_t node = 0; node < done.num_draft; ++node)
    done.num_levels = std::max(done.num_levels, tree.depths()[node] + 1);
  if (may_draft(part, part.item->drafter) && part.item->drafter != plain_decoding)
    progress.count_open_round(part.item->drafter);
  progress.count_verification(done.num_draft, done.num_accepted);
  verdict.accepted_path.resize(done.num_accepted); // nodes after a stop were not committed
  trace.bonus = verdict.bonus && goes_on;
  if (request.trace) tell_draft(part, verdict, trace);
  if (!goes_on) return std::move(verdict.accepted_path);
  feedback.verified = std::move(part.draft);
  feedback.accepted_path = verdict.accepted_path;
  progress.keep_feedback(std::move(feedback));
  return std::move(verdict.accepted_path);
}

void round_runner::tell_draft(const batch_part& part, const speculation::verdict& verdict,
                              round_trace& trace) const {
  const auto& tree = part.draft.tree;
  trace.draft_tokens.assign(tree.tokens().begin(), tree.tokens().end());
  trace.parents.assign(tree.parents().begin(), tree.parents().end());
  trace.accepted = verdict.accepted_path;
  trace.choice = part.choice_of_auto;
  if (!tree.empty() && part.draft.drafted)
    trace.drafted = part.item->request.terms->since_submission(*part.draft.drafted);
  if (const auto* drafter = drafter_at(part.drafter)) trace.drafter = drafter->traits().name;
}

/// How many of the target's best tokens the part's drafter needs for each row. With "auto" it is the maximum
/// over all candidates, whichever of them drafted.
std::uint32_t round_runner::num_top_tokens(const batch_part& part) const {
  const auto wanted = [&](drafter_index index) {
    const auto* drafter = drafter_at(index);
    const bool reads_probes = drafter && drafter->traits().where == speculation::placement::in_pass;
    // Drafters that draft in the pass learn only from their probes.
    return drafter && !(reads_probes && part.draft.probes.empty()) ? drafter->traits().top_tokens : 0;
  };
  if (part.item->drafter != resources_.automatic) return wanted(part.item->drafter);
  std::uint32_t most = 0;
  for (const auto candidate : candidates_) most = std::max(most, wanted(candidate));
  return most;
}

speculation::round_feedback round_runner::begin_feedback(const batch_part& part, std::uint32_t first_logits) {
  speculation::round_feedback feedback;
  feedback.num_top = num_top_tokens(part);
  if (feedback.num_top == 0) return feedback;
  const std::uint32_t num_rows = 1 + part.draft.num_rows();
  feedback.top_tokens.assign(std::size_t{num_rows} * feedback.num_top, token_id{-1});
  for (std::uint32_t row = 0; row < num_rows; ++row) {
    sampling::select_top(logits_row(first_logits + row), feedback.num_top, best_);
    for (std::size_t i = 0; i < best_.size(); ++i)
      feedback.top_tokens[std::size_t{row} * feedback.num_top + i] = best_[i].token;
  }
  return feedback;
}

void round_runner::compact(device::ops& ops, const batch_part& part, const speculation::verdict& verdict) {
  const auto base = part.item->request.log->length();
  std::vector<kv_slot> path;
  for (auto node : verdict.accepted_path) path.push_back(kv_slot{base + static_cast<std::uint32_t>(node)});
  const auto copies = kv::compact_path(part.item->blocks, resources_.kv->block_size(), base, path);
  if (!copies.empty()) resources_.kv->copy(ops, copies);
}

} // namespace paceline::rounds

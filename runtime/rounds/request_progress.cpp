#include "runtime/rounds/request_progress.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <utility>

namespace paceline::rounds {

using namespace scheduling; // plans, results and requests

request_progress::request_progress(std::shared_ptr<const request_terms> terms,
                                   std::shared_ptr<committed_log> log, std::unique_ptr<text_output> text)
    : terms_(std::move(terms)), log_(std::move(log)), text_(std::move(text)),
      history_(speculation::weighs_probs(terms_->request().speculation.rule, terms_->pipeline().greedy())) {
  const auto& request = terms_->request();
  stats_.guarantee = terms_->guarantee();
  if (request.beams.width == 0) return;
  beams_ = std::make_shared<beam_search>(request.beams, request.stop, terms_->prompt_length(),
                                         terms_->max_output());
  log_->beams_ = beams_;
}

request_progress::~request_progress() {
  for (const auto& session : sessions_)
    if (session) session->end({log_->tokens(), terms_->prompt_length(), terms_->request().tenant});
  log_->over_.store(true, std::memory_order_release);
}

void request_progress::set_kv_length(std::uint32_t length) {
  PACELINE_CHECK(length < log_->length() || terms_->max_output() == 0,
                 "KV of the last committed token is not computed yet");
  kv_length_ = length;
  log_->computed_ = length + 1 == log_->length();
}

void request_progress::restart_at(std::uint32_t length, std::uint32_t num_cached_tokens,
                                  std::uint32_t admission) {
  set_kv_length(length);
  log_->admission_ = admission;
  num_cached_tokens_ = num_cached_tokens;
  if (beams_) beams_->forget_cells();
}

void request_progress::begin_round(time_point now) {
  if (!first_round_) first_round_ = now;
  event_ = token_event{};
  event_.request = terms_->id();
  event_.first_index = log_->output_length();
  states_.begin_round();
}

bool request_progress::commit(token_id token, std::optional<token_logprob> logprob) {
  auto& log = *log_;
  PACELINE_CHECK(log.finish_ == finish_reason::none && log.remaining() > 0,
                 "request " + to_string(terms_->id()) + " has ended");
  log.counts(); // counts the prompt's tokens before another token is added
  log.tokens_.push_back(token);
  log.computed_ = false;
  log.counts_.add_output(token);
  event_.tokens.push_back(token);
  if (logprob) event_.logprobs.push_back(std::move(*logprob));
  const bool may_stop = log.output_length() >= terms_->request().stop.min_tokens;
  if (may_stop && terms_->ends_with(token)) {
    log.finish_ = finish_reason::stop;
  } else if (text_) {
    auto piece = text_->feed(token, may_stop);
    event_.text += piece.text;
    if (piece.stop_string) {
      log.finish_ = finish_reason::stop;
      event_.stop_string = *std::move(piece.stop_string);
    }
  }
  if (log.finish_ == finish_reason::none && log.remaining() == 0) log.finish_ = finish_reason::length;
  return log.finish_ == finish_reason::none;
}

beam_context request_progress::context_of_beams() const noexcept {
  const bool looks_at_text = !terms_->request().stop.stop_strings.empty();
  return {&terms_->pipeline(), &log_->counts(), looks_at_text ? text_.get() : nullptr};
}

/// Converts a hypothesis to the form that the client gets.
beam_hypothesis request_progress::shown(const beam_result& result) const {
  const auto text = text_ ? text_->clone() : nullptr;
  beam_hypothesis out{result.tokens, {}, finish_reason::length, result.logprob, result.score};
  for (std::size_t i = 0; i < result.tokens.size(); ++i) {
    const bool may_stop = i + 1 >= terms_->request().stop.min_tokens;
    bool ends = may_stop && terms_->ends_with(result.tokens[i]);
    if (!ends && text) {
      auto piece = text->feed(result.tokens[i], may_stop);
      out.text += piece.text;
      ends = piece.stop_string.has_value();
    }
    if (ends) out.finish = finish_reason::stop;
  }
  if (text) out.text += text->finish();
  return out;
}

void request_progress::commit_best_hypothesis() {
  const auto best = beams_->best();
  for (const auto& one : best) event_.hypotheses.push_back(shown(one));
  for (const auto token : best.front().tokens) commit(token, std::nullopt);
  PACELINE_CHECK(log_->finish() != finish_reason::none,
                 "a finished hypothesis of request " + to_string(terms_->id()) + " goes on");
}

void request_progress::add_prompt_logprob(token_logprob logprob) {
  event_.prompt_logprobs.push_back(std::move(logprob));
  ++num_prompt_logprobs_;
}

void request_progress::count_open_round(drafter_index drafter) {
  drafter_ = drafter;
  ++stats_.num_open_rounds;
}

void request_progress::count_verification(std::uint32_t num_draft, std::uint32_t num_accepted) {
  if (num_draft == 0) return;
  ++stats_.num_rounds;
  stats_.num_draft_tokens += num_draft;
  stats_.num_accepted_tokens += num_accepted;
  stats_.num_full_rounds += num_accepted == num_draft ? 1 : 0;
  if (stats_.acceptance_histogram.size() <= std::max(num_draft, num_accepted))
    stats_.acceptance_histogram.resize(std::max(num_draft, num_accepted) + 1);
  ++stats_.acceptance_histogram[num_accepted];
}

token_event request_progress::end_round(std::optional<round_trace> trace, time_point now) {
  if (!event_.tokens.empty() && !first_token_) first_token_ = now;
  if (terms_->request().trace) {
    event_.trace = std::move(trace);
    if (event_.trace) event_.trace->tokens = event_.tokens;
  }
  if (log_->finish() != finish_reason::none) {
    if (text_) event_.text += text_->finish();
    event_.finish = log_->finish();
  }
  if (log_->finish() != finish_reason::none || terms_->request().stats_in_events) {
    event_.speculation = stats_;
    request_timings t;
    t.queued = *first_round_ - terms_->submitted();
    t.prefill = first_token_.value_or(now) - *first_round_;
    t.decode = now - first_token_.value_or(now);
    t.num_cached_tokens = num_cached_tokens_;
    event_.timings = t;
  }
  return std::move(event_);
}

constraint_cursor* request_progress::constraint() {
  const auto& wanted = terms_->request().constraint;
  if (wanted && !constraint_) constraint_ = wanted->begin();
  return constraint_.get();
}

constraint_cursor* request_progress::draft_constraint() {
  return draft_constraint_.at(terms_->request().constraint.get(), log_->output_length());
}

speculation::drafter_session* request_progress::session(drafter_index index, speculation::drafter& drafter) {
  if (sessions_.size() <= index.value) sessions_.resize(index.value + 1);
  auto& session = sessions_[index.value];
  if (!session) session = drafter.open(terms_->id());
  return session.get();
}

} // namespace paceline::rounds

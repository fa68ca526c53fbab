#include "runtime/scheduling/sequence.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <utility>

namespace paceline::scheduling {

namespace {

/// A beam search draws nothing: its drafters shall propose what is likely, and its steps are the only rule.
generation_request without_draws(generation_request request) {
  if (request.beams.width == 0) return request;
  request.sampling.temperature = 0;
  request.speculation.rule = verification_rule::coupled;
  return request;
}

} // namespace

sequence::sequence(request_id id, generation_request request, std::uint32_t context_length,
                   std::unique_ptr<text_output> text, time_point submitted)
    : id_(id), request_(without_draws(std::move(request))), pipeline_(request_.sampling, request_.stop),
      tokens_(request_.prompt), prompt_length_(static_cast<std::uint32_t>(request_.prompt.size())),
      text_(std::move(text)), submitted_(submitted) {
  PACELINE_CHECK(prompt_length_ > 0 && prompt_length_ <= context_length,
                 "prompt of " + std::to_string(prompt_length_));
  stats_.guarantee = guarantee_of(request_.speculation.rule);
  max_output_ = std::min(request_.stop.max_tokens, context_length - prompt_length_);
  tokens_.reserve(prompt_length_ + max_output_);
  if (request_.beams.width > 0)
    beams_ = std::make_unique<beam_search>(request_.beams, request_.stop, prompt_length_, max_output_);
}

sequence::~sequence() {
  for (const auto& session : sessions_)
    if (session) session->end({tokens_, prompt_length_, request_.tenant});
}

const sampling::token_counts& sequence::counts() const {
  if (!std::exchange(counted_, true))
    counts_.add_prompt(tokens_); // nothing is committed yet: commit() asks first
  return counts_;
}

void sequence::set_kv_length(std::uint32_t length) {
  PACELINE_CHECK(length < this->length() || max_output_ == 0,
                 "KV of the last committed token is not computed yet");
  kv_length_ = length;
}

void sequence::begin_round(time_point now) {
  if (!first_round_) first_round_ = now;
  event_ = token_event{};
  event_.request = id_;
  event_.first_index = output_length();
}

bool sequence::ends_by_id(token_id token) const {
  const auto& stop = request_.stop;
  if (std::ranges::binary_search(stop.stop_ids, token)) return true;
  return !stop.ignore_eos && std::ranges::binary_search(stop.eos_ids, token);
}

bool sequence::commit(token_id token, std::optional<token_logprob> logprob) {
  PACELINE_CHECK(finish_ == finish_reason::none && remaining() > 0,
                 "request " + to_string(id_) + " has ended");
  counts(); // the prompt's, before another token is among them
  tokens_.push_back(token);
  counts_.add_output(token);
  event_.tokens.push_back(token);
  if (logprob) event_.logprobs.push_back(std::move(*logprob));
  const bool may_stop = output_length() >= request_.stop.min_tokens;
  if (may_stop && ends_by_id(token)) {
    finish_ = finish_reason::stop;
  } else if (text_) {
    auto piece = text_->feed(token, may_stop);
    event_.text += piece.text;
    if (piece.stopped) finish_ = finish_reason::stop;
  }
  if (finish_ == finish_reason::none && remaining() == 0) finish_ = finish_reason::length;
  return finish_ == finish_reason::none;
}

beam_context sequence::context_of_beams() const noexcept {
  return {&pipeline_, &counts(), request_.stop.stop_strings.empty() ? nullptr : text_.get()};
}

void sequence::commit_best_hypothesis() {
  const auto& stop = request_.stop;
  const auto best = beams_->best();
  for (const auto& one : best) {
    const auto text = text_ ? text_->clone() : nullptr;
    beam_hypothesis shown{one.tokens, {}, finish_reason::length, one.logprob, one.score};
    for (std::size_t i = 0; i < one.tokens.size(); ++i) {
      const bool may_stop = i + 1 >= stop.min_tokens;
      bool ends = may_stop && ends_by_id(one.tokens[i]);
      if (!ends && text) {
        auto piece = text->feed(one.tokens[i], may_stop);
        shown.text += piece.text;
        ends = piece.stopped;
      }
      if (ends) shown.finish = finish_reason::stop;
    }
    if (text) shown.text += text->finish();
    event_.hypotheses.push_back(std::move(shown));
  }
  for (const auto token : best.front().tokens) commit(token, std::nullopt);
  PACELINE_CHECK(finish_ != finish_reason::none,
                 "a finished hypothesis of request " + to_string(id_) + " goes on");
}

void sequence::add_prompt_logprob(token_logprob logprob) {
  event_.prompt_logprobs.push_back(std::move(logprob));
  ++num_prompt_logprobs_;
}

void sequence::count_verification(std::uint32_t num_draft, std::uint32_t num_accepted) {
  if (num_draft == 0) return;
  ++stats_.num_rounds;
  stats_.num_draft_tokens += num_draft;
  stats_.num_accepted_tokens += num_accepted;
  stats_.num_full_rounds += num_accepted == num_draft ? 1 : 0;
  if (stats_.acceptance_histogram.size() <= std::max(num_draft, num_accepted))
    stats_.acceptance_histogram.resize(std::max(num_draft, num_accepted) + 1);
  ++stats_.acceptance_histogram[num_accepted];
}

token_event sequence::end_round(std::optional<round_trace> trace, time_point now) {
  if (!event_.tokens.empty() && !first_token_) first_token_ = now;
  if (request_.trace) event_.trace = std::move(trace);
  event_.committed_at = now;
  if (finish_ != finish_reason::none) {
    if (text_) event_.text += text_->finish();
    event_.finish = finish_;
    event_.speculation = stats_;
    request_timings t;
    t.queued = *first_round_ - submitted_;
    t.prefill = first_token_.value_or(now) - *first_round_;
    t.decode = now - first_token_.value_or(now);
    t.num_cached_tokens = num_cached_tokens;
    event_.timings = t;
  }
  return std::move(event_);
}

speculation::drafter_session* sequence::session(std::uint32_t index, speculation::drafter& drafter) {
  if (sessions_.size() <= index) sessions_.resize(index + 1);
  if (!sessions_[index]) sessions_[index] = drafter.open(id_);
  return sessions_[index].get();
}

void sequence::reset_session(std::uint32_t index) {
  if (index < sessions_.size()) sessions_[index].reset();
}

void sequence::adopt_session(std::uint32_t index, std::unique_ptr<speculation::drafter_session> session) {
  sessions_.at(index) = std::move(session);
}

} // namespace paceline::scheduling

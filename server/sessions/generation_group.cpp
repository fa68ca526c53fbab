#include "server/sessions/generation_group.hpp"

#include <algorithm>
#include <utility>

namespace paceline::server {

namespace {

/// Number of prompts of one stream that are scored at the same time. Each of them may run ahead of the client
/// by its window, and many windows would add up.
constexpr std::size_t most_scored_prompts = 4;

/// All choices together may run ahead of the client as far as eight choices may: with more than eight, each
/// has less credit, but at least as much as the longest draft needs in one round.
std::uint32_t window_of(const edge_limits& limits, std::size_t num_sequences) {
  constexpr std::size_t few = 8;
  const auto share = limits.initial_credit * few / std::max(num_sequences, few);
  return std::max(std::min(limits.initial_credit, limits.least_credit), static_cast<std::uint32_t>(share));
}

/// Number of sequences submitted in one task. The engine checks the tokens and biases of each. This takes up
/// to a millisecond with a bias for every token of a vocabulary.
constexpr std::size_t sequences_a_turn = 4;

} // namespace

generation_group::generation_group(const edge_context& edge, executor_ptr executor,
                                   std::weak_ptr<generation_observer> observer, std::string tenant,
                                   time_point arrival)
    : edge_(edge), executor_(std::move(executor)), observer_(std::move(observer)), tenant_(std::move(tenant)),
      arrival_(arrival) {}

generation_group::~generation_group() {
  cancel();
  edge_.metrics.open_requests -= num_running_;
  for (const auto& entry : sequences_)
    if (!entry.finished) edge_.streams->remove(entry.shown);
  for (; num_running_ > 0; --num_running_) edge_.places->give_back(model_, tenant_);
}

std::optional<wire::api_error> generation_group::start(const model_view& model,
                                                       std::vector<generation_request> requests, pacing how) {
  model_ = model.limits().name;
  if (!edge_.places->take(model_, model.max_requests(), tenant_, requests.size(), edge_.num_tenants())) {
    sequences_.resize(requests.size());
    for (auto& entry : sequences_) entry.finished = true;
    return wire::from_error(
        error{errc::queue_full, "this API key has its share of the model's queue already"});
  }
  pacing_ = how;
  window_ = window_of(edge_.limits, requests.size());
  const bool scores_prompts =
      how != pacing::engine && !requests.empty() && requests.front().sampling.prompt_logprobs;
  num_opened_ = scores_prompts ? std::min(requests.size(), most_scored_prompts) : requests.size();
  if (!requests.empty()) metrics_ = &edge_.metrics.of(requests.front().model);
  sequences_.resize(requests.size());
  num_running_ = requests.size();
  edge_.metrics.open_requests += num_running_;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    sequences_[i].prompt_tokens = static_cast<std::uint32_t>(requests[i].prompt.size());
    sequences_[i].shown = edge_.streams->add(model_, sequences_[i].prompt_tokens, arrival_);
  }
  requests_ = std::move(requests);
  submit_some();
  return std::nullopt;
}

void generation_group::submit_some() {
  if (requests_.empty()) return; // the group was cancelled
  flow_control flow;
  const auto end = std::min(requests_.size(), num_submitted_ + sequences_a_turn);
  for (; num_submitted_ < end; ++num_submitted_) {
    const auto i = num_submitted_;
    if (pacing_ != pacing::engine) flow.initial_credit = i < num_opened_ ? window_ : 0;
    // The sink runs on a thread of actors, so it only posts a copy of the event. It keeps the executor alive,
    // but not the group.
    sequences_[i].id = edge_.runtime.submit(
        std::move(requests_[i]),
        [weak = weak_from_this(), executor = executor_, i](const token_event& event) {
          executor->post([weak, i, event] {
            if (const auto group = weak.lock()) group->deliver(i, event);
          });
        },
        flow);
  }
  if (num_submitted_ == requests_.size()) return requests_.clear();
  executor_->post([weak = weak_from_this()] {
    if (const auto group = weak.lock()) group->submit_some();
  });
}

void generation_group::cancel() {
  for (std::size_t i = 0; i < num_submitted_; ++i)
    if (!sequences_[i].finished) edge_.runtime.cancel(sequences_[i].id);
  // Sequences that were not submitted also end with an event.
  for (auto i = num_submitted_; i < requests_.size(); ++i)
    executor_->post([weak = weak_from_this(), i] {
      token_event last;
      last.finish = finish_reason::cancelled;
      if (const auto group = weak.lock()) group->deliver(i, last);
    });
  requests_.clear();
}

void generation_group::stop(std::size_t index, const token_event& event) {
  auto& entry = sequences_.at(index);
  if (entry.finished || entry.ending) return;
  entry.ending.emplace();
  entry.ending->finish = finish_reason::stop;
  entry.ending->timings = event.timings;
  entry.ending->speculation = event.speculation;
  edge_.runtime.cancel(entry.id);
}

void generation_group::repay(std::size_t index) {
  auto& entry = sequences_[index];
  if (entry.owed_credit > 0 && !entry.finished) edge_.runtime.grant(entry.id, entry.owed_credit);
  entry.owed_credit = 0;
}

void generation_group::on_writable() {
  withholding_ = false;
  go_on();
}

void generation_group::go_on() {
  const auto observer = observer_.lock();
  if (!observer) return;
  for (std::size_t i = 0; i < sequences_.size(); ++i)
    if (sequences_[i].owed_credit > 0 && !observer->congested(i)) repay(i);
  const auto num_finished = sequences_.size() - num_running_;
  for (; num_opened_ < sequences_.size() && num_opened_ < num_finished + most_scored_prompts; ++num_opened_) {
    if (observer->congested(num_opened_)) return;
    if (num_opened_ < num_submitted_) edge_.runtime.grant(sequences_[num_opened_].id, window_);
  }
}

void generation_group::deliver(std::size_t index, const token_event& event) {
  const auto& entry = sequences_.at(index);
  if (entry.finished) return;
  if (!entry.ending) return pass_on(index, event);
  if (event.finish != finish_reason::none) pass_on(index, token_event(*entry.ending));
}

void generation_group::pass_on(std::size_t index, const token_event& event) {
  auto& entry = sequences_[index];
  measure(entry, event);
  entry.num_tokens += static_cast<std::uint32_t>(event.tokens.size());
  entry.shown->num_tokens.store(entry.num_tokens, std::memory_order_relaxed);
  if (!event.tokens.empty()) entry.shown->num_rounds.fetch_add(1, std::memory_order_relaxed);
  if (event.finish != finish_reason::none) {
    entry.finished = true;
    edge_.streams->remove(entry.shown);
    --num_running_;
    edge_.places->give_back(model_, tenant_);
    --edge_.metrics.open_requests;
    measure_end(entry, event);
  }
  const auto observer = observer_.lock();
  if (!observer) return;
  const auto self = shared_from_this(); // the observer may release the group
  observer->on_event(index, event);
  if (pacing_ == pacing::engine) return;
  const bool congested = observer->congested(index);
  if (pacing_ == pacing::client && !event.tokens.empty() && !congested) measure_write(event);
  if (entry.finished) return go_on();
  entry.owed_credit += static_cast<std::uint32_t>(event.tokens.size() + event.prompt_logprobs.size());
  if (!congested) return repay(index);
  if (!std::exchange(withholding_, true)) ++edge_.metrics.flow_pauses;
}

void generation_group::measure(sequence& entry, const token_event& event) {
  if (event.tokens.empty()) return;
  const auto now = edge_.now();
  const auto seconds = [](auto duration) { return std::chrono::duration<double>(duration).count(); };
  const auto count = event.tokens.size();
  if (entry.num_tokens == 0) {
    metrics_->first_token.observe(seconds(now - arrival_));
    if (count > 1) metrics_->token_gap.observe(0, count - 1);
  } else {
    metrics_->token_gap.observe(seconds(now - entry.last_tokens) / static_cast<double>(count), count);
  }
  entry.last_tokens = now;
}

/// The observer has written the event. Time that it waits for a slow client is not counted.
void generation_group::measure_write(const token_event& event) {
  if (event.committed_at == time_point{}) return;
  metrics_->commit_to_write.observe(std::chrono::duration<double>(edge_.now() - event.committed_at).count());
}

void generation_group::measure_end(const sequence& entry, const token_event& event) {
  const auto seconds = [](auto duration) { return std::chrono::duration<double>(duration).count(); };
  metrics_->total.observe(seconds(edge_.now() - arrival_));
  if (event.finish == finish_reason::error) return;
  metrics_->prompt_tokens.observe(entry.prompt_tokens);
  metrics_->output_tokens.observe(entry.num_tokens);
  if (!event.timings) return;
  metrics_->queued.observe(seconds(event.timings->queued));
  metrics_->prefill.observe(seconds(event.timings->prefill));
  metrics_->decode.observe(seconds(event.timings->decode));
  if (entry.num_tokens > 1)
    metrics_->time_per_token.observe(seconds(event.timings->decode) / (entry.num_tokens - 1));
}

wire::generation_metrics generation_group::metrics_of(std::size_t index, const token_event& last) const {
  wire::generation_metrics metrics;
  metrics.timings = last.timings.value_or(request_timings{});
  metrics.prompt_tokens = sequences_.at(index).prompt_tokens;
  metrics.completion_tokens = sequences_.at(index).num_tokens;
  metrics.speculation = last.speculation;
  return metrics;
}

std::vector<wire::token_score> with_text(const std::vector<token_logprob>& scores, const model_view& model) {
  std::vector<wire::token_score> out;
  out.reserve(scores.size());
  for (const auto& score : scores) {
    wire::token_score entry{model.token_bytes(score.token), score.logprob, {}};
    for (const auto& [token, logprob] : score.top) entry.top.emplace_back(model.token_bytes(token), logprob);
    out.push_back(std::move(entry));
  }
  return out;
}

} // namespace paceline::server

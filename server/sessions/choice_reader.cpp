#include "server/sessions/choice_reader.hpp"

#include "server/edge_context.hpp"

#include <utility>

namespace paceline::server {

choice_reader::choice_reader(const wire::output_plan& plan, const model_view& model, bool skips_special)
    : pipeline_(plan, [] { return fresh_id("call_"); }), model_(&model), skips_special_(skips_special),
      ends_itself_(plan.ends_itself) {}

wire::output_items choice_reader::read(const token_event& event) {
  const bool may_reason = pipeline_.may_reason();
  auto items = pipeline_.feed(event.text);
  if (event.finish != finish_reason::none) {
    const bool is_cut = event.finish != finish_reason::stop || !event.stop_string.empty();
    for (auto& item : pipeline_.finish(is_cut)) append(items, std::move(item));
  }
  if (may_reason) count(event);
  return items;
}

std::vector<token_logprob> choice_reader::scores_of_answer(std::vector<token_logprob> scores) {
  if (finds_nothing()) return scores;
  for (auto& score : scores) {
    const auto size = bytes_of(score.token);
    scores_.push_back({num_scored_bytes_, std::move(score)});
    num_scored_bytes_ += size;
  }
  std::vector<token_logprob> of_answer;
  for (; !scores_.empty(); scores_.pop_front()) {
    const auto owner = pipeline_.owner_of(scores_.front().begin);
    if (owner == wire::byte_owner::undecided) break;
    if (owner == wire::byte_owner::answer) of_answer.push_back(std::move(scores_.front().score));
  }
  return of_answer;
}

std::size_t choice_reader::bytes_of(token_id token) const {
  return skips_special_ && model_->is_special(token) ? 0 : model_->token_bytes(token).size();
}

void choice_reader::count(const token_event& event) {
  for (const auto token : event.tokens) {
    begins_.push_back(num_bytes_);
    num_bytes_ += bytes_of(token);
  }
  for (; !begins_.empty() && begins_.front() < pipeline_.reasoning_bytes(); begins_.pop_front())
    ++num_reasoning_tokens_;
  if (!pipeline_.may_reason()) begins_.clear();
}

} // namespace paceline::server

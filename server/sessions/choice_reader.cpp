#include "server/sessions/choice_reader.hpp"

#include "server/edge_context.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace paceline::server {

choice_reader::choice_reader(const wire::output_plan& plan, const model_view& model, bool skips_special)
    : pipeline_(plan, [] { return fresh_id("call_"); }), model_(&model), skips_special_(skips_special) {}

wire::output_items choice_reader::read(const token_event& event) {
  const bool may_reason = pipeline_.may_reason();
  auto items = pipeline_.feed(event.text);
  if (event.finish != finish_reason::none) {
    for (auto& item : pipeline_.finish(event.finish != finish_reason::stop)) append(items, std::move(item));
  }
  if (may_reason) count(event);
  return items;
}

std::vector<token_logprob> choice_reader::scores_of_answer(std::vector<token_logprob> scores) {
  const bool all_known = scores_.empty() && num_dropped_scores_ == num_reasoning_tokens_;
  if (all_known && !pipeline_.may_reason()) return scores;
  scores_.insert(scores_.end(), std::make_move_iterator(scores.begin()),
                 std::make_move_iterator(scores.end()));
  const auto known = std::min<std::size_t>(num_reasoning_tokens_ - num_dropped_scores_, scores_.size());
  scores_.erase(scores_.begin(), scores_.begin() + static_cast<std::ptrdiff_t>(known));
  num_dropped_scores_ += static_cast<std::uint32_t>(known);
  if (pipeline_.may_reason()) return {};
  return std::exchange(scores_, {});
}

void choice_reader::count(const token_event& event) {
  for (const auto token : event.tokens) {
    begins_.push_back(num_bytes_);
    if (!skips_special_ || !model_->is_special(token)) num_bytes_ += model_->token_bytes(token).size();
  }
  for (; !begins_.empty() && begins_.front() < pipeline_.reasoning_bytes(); begins_.pop_front())
    ++num_reasoning_tokens_;
  if (!pipeline_.may_reason()) begins_.clear();
}

} // namespace paceline::server

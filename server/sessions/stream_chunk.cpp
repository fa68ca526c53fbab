#include "server/sessions/stream_chunk.hpp"

#include "server/http/http_writer.hpp"
#include "server/sessions/generation_group.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace paceline::server {

namespace {

std::size_t bytes_of(const round_trace& round) {
  std::size_t count = sizeof round + round.drafter.capacity() +
                      (round.draft_tokens.capacity() + round.tokens.capacity()) * sizeof(token_id) +
                      (round.parents.capacity() + round.accepted.capacity()) * sizeof(std::int32_t);
  if (!round.choice) return count;
  for (const auto& option : round.choice->options) count += sizeof option + option.drafter.capacity();
  return count;
}

std::size_t bytes_of(const std::vector<token_logprob>& scores) {
  std::size_t count = scores.capacity() * sizeof(token_logprob);
  for (const auto& score : scores) count += score.top.capacity() * sizeof(score.top[0]);
  return count;
}

std::size_t bytes_of(const wire::output_items& items) {
  std::size_t count = items.capacity() * sizeof(wire::output_item);
  for (const auto& item : items) count += item.text.capacity() + item.call_id.capacity();
  return count;
}

bool says_something(const stream_terms& terms, const stream_chunk& chunk) {
  const auto& event = chunk.event;
  const bool has_items = std::any_of(chunk.items.begin(), chunk.items.end(), [](const auto& item) {
    return item.what != wire::output_item::kind::call_end; // chunks do not say that a call is complete
  });
  const bool has_text = has_items || (chunk.prompt_text && !chunk.prompt_text->empty());
  const bool has_scores = terms.shape.scores && (chunk.first_of_prompt || !event.prompt_logprobs.empty() ||
                                                 !event.logprobs.empty());
  return has_text || has_scores || event.trace || (terms.shape.token_ids && !event.tokens.empty());
}

wire::reply_choice choice_of(const stream_terms& terms, const stream_chunk& chunk) {
  const auto& event = chunk.event;
  wire::reply_choice added;
  added.index = chunk.index;
  added.text_offset = chunk.text_offset;
  if (chunk.prompt_text) append(added.items, wire::output_item::kind::text, *chunk.prompt_text);
  added.items.insert(added.items.end(), chunk.items.begin(), chunk.items.end());
  added.tokens = event.tokens;
  if (terms.shape.scores) {
    if (chunk.first_of_prompt)
      added.scores.push_back({terms.model->token_bytes(*chunk.first_of_prompt), std::nullopt, {}});
    // A long prompt is scored in several events before the first token.
    for (const auto* part : {&event.prompt_logprobs, &event.logprobs}) {
      auto scores = with_text(*part, *terms.model);
      std::move(scores.begin(), scores.end(), std::back_inserter(added.scores));
    }
  }
  if (event.trace)
    added.rounds.push_back(wire::tell_round(
        *event.trace, [&model = *terms.model](token_id token) { return model.token_bytes(token); }));
  added.finish = event.finish;
  added.has_calls = chunk.has_calls;
  return added;
}

class later final : public wire::text_source {
 public:
  later(std::shared_ptr<const stream_terms> terms, stream_chunk chunk)
      : terms_(std::move(terms)), chunk_(std::move(chunk)) {}

  std::string next(std::size_t) override {
    done_ = true;
    auto text = write_chunk_event(*terms_, chunk_);
    chunk_.event = {};
    chunk_.items = {};
    return text;
  }
  bool at_end() const noexcept override { return done_; }
  std::size_t num_bytes() const noexcept override {
    const auto& event = chunk_.event;
    return sizeof *this + bytes_of(chunk_.items) + event.tokens.capacity() * sizeof(token_id) +
           bytes_of(event.logprobs) + bytes_of(event.prompt_logprobs) +
           (event.trace ? bytes_of(*event.trace) : 0);
  }
  std::vector<shared_part> shared() const override {
    std::vector<shared_part> parts;
    if (chunk_.prompt_text) parts.push_back({chunk_.prompt_text.get(), chunk_.prompt_text->size()});
    if (chunk_.prompt) parts.push_back({chunk_.prompt->data(), chunk_.prompt->size() * sizeof(token_id)});
    return parts;
  }

 private:
  const std::shared_ptr<const stream_terms> terms_;
  stream_chunk chunk_;
  bool done_ = false;
};

} // namespace

std::string write_chunk_event(const stream_terms& terms, const stream_chunk& chunk) {
  auto added = choice_of(terms, chunk);
  const std::vector<token_id>* prompt = nullptr;
  if (chunk.prompt) prompt = &static_cast<const std::vector<token_id>&>(*chunk.prompt);
  const bool says = says_something(terms, chunk);
  if (!terms.chat) {
    if (!says && added.finish == finish_reason::none && prompt == nullptr) return {};
    return write_sse("", wire::completion_chunk(terms.identity, terms.shape, added, prompt, chunk.so_far));
  }
  std::string out;
  if (chunk.opens)
    out += write_sse(
        "", wire::chat_opening_chunk(terms.identity, terms.shape, added.index, prompt, chunk.so_far));
  const auto finish = std::exchange(added.finish, finish_reason::none);
  if (says) out += write_sse("", wire::chat_chunk(terms.identity, terms.shape, added, chunk.so_far));
  if (finish == finish_reason::none) return out;
  wire::reply_choice last;
  last.index = added.index;
  last.finish = finish;
  last.has_calls = added.has_calls;
  return out += write_sse("", wire::chat_chunk(terms.identity, terms.shape, last, chunk.so_far));
}

std::unique_ptr<wire::text_source> write_chunk_later(std::shared_ptr<const stream_terms> terms,
                                                     stream_chunk chunk) {
  if (!says_something(*terms, chunk) && chunk.event.finish == finish_reason::none && !chunk.prompt &&
      !(terms->chat && chunk.opens))
    return nullptr;
  return std::make_unique<later>(std::move(terms), std::move(chunk));
}

} // namespace paceline::server

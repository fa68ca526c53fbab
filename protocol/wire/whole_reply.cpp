#include "protocol/wire/whole_reply.hpp"

#include "runtime/base/utf8.hpp"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

namespace paceline::wire {

namespace {

constexpr std::size_t text_step = 4U << 10U; ///< bytes of text escaped at a time

} // namespace

void whole_choice::append(const output_items& items) {
  for (const auto& item : items) {
    switch (item.what) {
    case output_item::kind::reasoning:
      reasoning += item.text;
      break;
    case output_item::kind::text:
      text += item.text;
      break;
    case output_item::kind::call_begin:
      calls.push_back({item.call_id, item.text, {}});
      call_bytes += sizeof(tool_call) + item.call_id.size() + item.text.size();
      break;
    case output_item::kind::call_arguments:
      calls.back().arguments += item.text;
      call_bytes += item.text.size();
      break;
    case output_item::kind::call_end:
      break;
    }
  }
}

whole_reply::whole_reply(opened, reply_content begun, token_speller spell)
    : content_(std::move(begun)), spell_(std::move(spell)) {
  once([this](json_writer& out) {
    open_reply(out, content_.identity, content_.chat ? "chat.completion" : "text_completion");
    out.key("choices").begin_array();
  });
  if (!content_.shape.token_ids) content_.prompts.clear();
  for (const auto& prompt : content_.prompts) prompt_bytes_ += prompt.size() * sizeof(token_id);
}

whole_reply::whole_reply(reply_content content, token_speller spell)
    : whole_reply(opened{}, std::move(content), std::move(spell)) {
  for (auto& choice : content_.choices) add_choice(choice);
  complete(content_.totals);
}

std::unique_ptr<whole_reply> whole_reply::open(reply_content begun, token_speller spell) {
  return std::unique_ptr<whole_reply>(new whole_reply(opened{}, std::move(begun), std::move(spell)));
}

void whole_reply::add(whole_choice choice) {
  content_.choices.push_back(std::move(choice)); // earlier choices keep their addresses
  add_choice(content_.choices.back());
}

void whole_reply::add_choice(whole_choice& choice) {
  kept_bytes_ += choice.num_bytes();
  if (choice.prompt_text && texts_.insert(choice.prompt_text.get()).second)
    prompt_bytes_ += choice.prompt_text->size();
  content_.chat ? add_chat_choice(choice) : add_completion_choice(choice);
}

void whole_reply::complete(const reply_totals& totals) {
  content_.totals = totals;
  completed_ = true;
  once([](json_writer& out) { out.end_array(); });
  if (content_.chat && content_.shape.token_ids) {
    once([](json_writer& out) { out.key("prompt_token_ids"); });
    add_tokens(content_.prompts.front());
  }
  once([this](json_writer& out) {
    write_totals(out, content_.totals);
    out.end_object();
  });
}

std::string whole_reply::next(std::size_t num_bytes) {
  while (!parts_.empty() && out_.size() < num_bytes)
    if (!parts_.front()(out_)) parts_.pop_front();
  return out_.take();
}

void whole_reply::once(std::function<void(json_writer&)> write) {
  parts_.emplace_back([write = std::move(write)](json_writer& out) {
    write(out);
    return false;
  });
}

void whole_reply::add_tokens(const std::vector<token_id>& tokens) {
  once([](json_writer& out) { out.begin_array(); });
  parts_.emplace_back([&tokens, at = std::size_t{0}](json_writer& out) mutable {
    for (std::size_t i = 0; i < 64 && at < tokens.size(); ++i) out.value(tokens[at++].value);
    return at < tokens.size();
  });
  once([](json_writer& out) { out.end_array(); });
}

void whole_reply::add_string(const std::string* prefix, const std::string& text) {
  once([](json_writer& out) { out.begin_string(); });
  parts_.emplace_back([prefix, &text, at = std::size_t{0}](json_writer& out) mutable {
    const std::string_view before = prefix != nullptr ? std::string_view(*prefix) : "";
    const auto size = before.size() + text.size();
    const auto byte = [&](std::size_t i) { return i < before.size() ? before[i] : text[i - before.size()]; };
    auto end = std::min(at + text_step, size);
    // A piece ends at the end of a character, because a part of one would be written as an invalid one.
    for (int i = 0; i < 3 && end < size && is_utf8_continuation(byte(end)); ++i) ++end;
    std::string piece;
    if (at < before.size()) piece = before.substr(at, end - at);
    if (end > before.size())
      piece.append(text, std::max(at, before.size()) - before.size(), end - std::max(at, before.size()));
    out.add_to_string(piece);
    at = end;
    return at < size;
  });
  once([](json_writer& out) { out.end_string(); });
}

void whole_reply::add_scores(whole_choice& choice,
                             std::function<void(json_writer&, const token_score&)> write) {
  // The part is read when it is written. The choice keeps its address until then.
  parts_.emplace_back([this, &choice, write = std::move(write),
                       reader = std::shared_ptr<score_log::reader>()](json_writer& out) mutable {
    if (!reader) reader = std::make_shared<score_log::reader>(choice.scores);
    if (reader->at_end()) return false;
    write(out, reader->next(spell_));
    return true;
  });
}

void whole_reply::add_legacy_scores(whole_choice& choice) {
  const auto array = [&](const char* name, std::function<void(json_writer&, const token_score&)> write) {
    once([name](json_writer& out) { out.key(name).begin_array(); });
    add_scores(choice, std::move(write));
    once([](json_writer& out) { out.end_array(); });
  };
  once([](json_writer& out) { out.begin_object(); });
  array("tokens",
        [](json_writer& out, const token_score& score) { out.value(printable_token(score.bytes)); });
  array("token_logprobs", [](json_writer& out, const token_score& score) {
    score.logprob ? out.value(*score.logprob) : out.null();
  });
  array("top_logprobs", [](json_writer& out, const token_score& score) { write_legacy_top(out, score); });
  array("text_offset", [offset = std::size_t{0}](json_writer& out, const token_score& score) mutable {
    out.value(offset);
    offset += count_code_points(score.bytes);
  });
  once([](json_writer& out) { out.end_object(); });
}

void whole_reply::add_completion_choice(whole_choice& choice) {
  once([&choice](json_writer& out) { out.begin_object().field("index", choice.index).key("text"); });
  add_string(choice.prompt_text.get(), choice.text);
  once([](json_writer& out) { out.key("logprobs"); });
  if (content_.shape.scores)
    add_legacy_scores(choice);
  else
    once([](json_writer& out) { out.null(); });
  add_ending(choice, content_.shape.token_ids ? &content_.prompts.at(choice.prompt) : nullptr);
}

void whole_reply::add_message(whole_choice& choice) {
  once([](json_writer& out) { out.begin_object().field("role", "assistant").key("content"); });
  if (choice.text.empty() && !choice.calls.empty())
    once([](json_writer& out) { out.null(); });
  else
    add_string(nullptr, choice.text);
  once([](json_writer& out) { out.key("refusal").null(); });
  if (!choice.reasoning.empty()) {
    once([](json_writer& out) { out.key("reasoning_content"); });
    add_string(nullptr, choice.reasoning);
  }
  if (!choice.calls.empty()) {
    once([](json_writer& out) { out.key("tool_calls").begin_array(); });
    for (const auto& call : choice.calls) {
      once([&call](json_writer& out) {
        out.begin_object().field("id", call.id).field("type", "function").key("function").begin_object();
        out.field("name", call.name).key("arguments");
      });
      add_string(nullptr, call.arguments);
      once([](json_writer& out) { out.end_object().end_object(); });
    }
    once([](json_writer& out) { out.end_array(); });
  }
  once([](json_writer& out) { out.end_object(); });
}

void whole_reply::add_chat_choice(whole_choice& choice) {
  once([&choice](json_writer& out) { out.begin_object().field("index", choice.index).key("message"); });
  add_message(choice);
  once([](json_writer& out) { out.key("logprobs"); });
  if (content_.shape.scores) {
    once([](json_writer& out) { out.begin_object().key("content").begin_array(); });
    add_scores(choice, [](json_writer& out, const token_score& score) { write_token_score(out, score); });
    once([](json_writer& out) { out.end_array().key("refusal").null().end_object(); });
  } else {
    once([](json_writer& out) { out.null(); });
  }
  add_ending(choice, nullptr);
}

void whole_reply::add_ending(whole_choice& choice, const shared_list<token_id>* prompt) {
  once([&choice](json_writer& out) {
    out.key("finish_reason").string_or_null(finish_name(choice.finish, !choice.calls.empty()));
  });
  if (content_.shape.token_ids) {
    once([](json_writer& out) { out.key("token_ids"); });
    add_tokens(choice.tokens);
  }
  if (content_.shape.trace && !choice.rounds.empty()) {
    once([](json_writer& out) { out.key("paceline").begin_object().key("rounds").begin_array(); });
    parts_.emplace_back(
        [this, &choice, reader = std::shared_ptr<round_log::reader>()](json_writer& out) mutable {
          if (!reader) reader = std::make_shared<round_log::reader>(choice.rounds);
          if (reader->at_end()) return false;
          write_round(out, tell_round(reader->next(), spell_));
          return true;
        });
    once([](json_writer& out) { out.end_array().end_object(); });
  }
  if (prompt != nullptr) {
    once([](json_writer& out) { out.key("prompt_token_ids"); });
    add_tokens(*prompt);
  }
  once([this, &choice](json_writer& out) {
    out.end_object();
    kept_bytes_ -= choice.num_bytes();
    if (!content_.chat && completed_ && &choice == &content_.choices.back())
      prompt_bytes_ = 0; // in a chat reply it is written last
    choice = {};
  });
}

} // namespace paceline::wire

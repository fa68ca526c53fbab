#pragma once

#include "protocol/wire/chat_prompt.hpp"
#include "protocol/wire/completion_replies.hpp"
#include "protocol/wire/json_writer.hpp"
#include "protocol/wire/kept_output.hpp"
#include "runtime/base/shared_list.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace paceline::wire {

/// A choice of a reply that is not streamed.
struct whole_choice {
  std::uint32_t index = 0;
  std::uint32_t prompt = 0; ///< index of its prompt in `reply_content::prompts`
  /// The prompt's text if the reply echoes the prompt, else null. It precedes `text`. Choices with the same
  /// prompt share it.
  std::shared_ptr<const std::string> prompt_text;
  std::string text; ///< the answer
  std::string
      reasoning; ///< the model's thoughts, if they are separated from the answer (`output_plan::reasoning`)
  std::vector<tool_call> calls; ///< calls of the client's functions
  std::vector<token_id> tokens; ///< if the client asked for ids
  score_log scores;
  round_log rounds;
  finish_reason finish = finish_reason::none;

  void append(const output_items& items);
  /// Bytes held for the choice, without `prompt_text`, which is shared.
  std::size_t num_bytes() const noexcept {
    return text.size() + reasoning.size() + call_bytes + tokens.size() * sizeof(token_id) +
           scores.num_bytes() + rounds.num_bytes();
  }
  std::size_t call_bytes = 0; ///< of `calls`
};

/// The content of a reply.
struct reply_content {
  bool chat = false;
  reply_identity identity;
  reply_shape shape;
  std::deque<whole_choice> choices;           ///< in order
  std::vector<shared_list<token_id>> prompts; ///< in order; written if the client asked for ids
  reply_totals totals;
};

/// The JSON of a completion or chat completion that is not streamed as events, generated piece by piece: a
/// reply of hundreds of megabytes never exists as one text. Memory of a choice is released once it is
/// written. A reply may be started while later choices are still being generated: `open`, then `add` for each
/// choice, then `complete`. Not thread-safe.
class whole_reply {
 public:
  /// A reply whose content is complete.
  whole_reply(reply_content content, token_speller spell);
  /// Starts a reply; `begun` has no choices and no totals yet.
  static std::unique_ptr<whole_reply> open(reply_content begun, token_speller spell);
  /// Adds the next choice, in the order of the reply. Not after `complete`.
  void add(whole_choice choice);
  /// Adds the end of the reply. To be called once, after the last `add`.
  void complete(const reply_totals& totals);
  whole_reply(const whole_reply&) = delete;
  whole_reply& operator=(const whole_reply&) = delete;

  /// Returns the next piece. It has at least `num_bytes` bytes, and exceeds this number by at most one step:
  /// 4 KiB of text before escaping, 64 token ids, one token's scores, or one round. Exception: while no
  /// further content is available, the piece may be shorter, or empty.
  std::string next(std::size_t num_bytes);
  bool at_end() const noexcept { return completed_ && parts_.empty(); }
  /// Bytes held for the choices that are not written yet, and for the prompts until the end.
  std::size_t num_bytes() const noexcept { return at_end() ? 0 : kept_bytes_ + prompt_bytes_; }

 private:
  /// Writes the next step of a part of the reply; false when the part is complete.
  using part = std::function<bool(json_writer&)>;
  struct opened {};

  whole_reply(opened, reply_content begun, token_speller spell);
  void add_choice(whole_choice& choice);
  void once(std::function<void(json_writer&)> write);
  void add_completion_choice(whole_choice& choice);
  void add_chat_choice(whole_choice& choice);
  void add_legacy_scores(whole_choice& choice);
  void add_scores(whole_choice& choice, std::function<void(json_writer&, const token_score&)> write);
  void add_ending(whole_choice& choice, const shared_list<token_id>* prompt);
  /// Adds `before`, if it is not null, and `text` as one JSON string. Both must exist until they are written.
  void add_string(const std::string* before, const std::string& text);
  void add_message(whole_choice& choice);
  void add_tokens(const std::vector<token_id>& tokens);

  reply_content content_;
  token_speller spell_;
  std::deque<part> parts_; ///< in order; the first is being written
  json_writer out_;
  std::size_t prompt_bytes_ = 0; ///< echoed texts and token ids
  std::size_t kept_bytes_ = 0;
  std::set<const std::string*> texts_; ///< echoed prompts; choices share them
  bool completed_ = false;
};

} // namespace paceline::wire

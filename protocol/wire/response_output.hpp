#pragma once

#include "protocol/wire/kept_output.hpp"
#include "protocol/wire/text_source.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace paceline::wire {

/// An item of a response's output, or the list of the output's token ids. All events that repeat it share one
/// copy. Once complete it is immutable, so that connections can share it and read it on several threads.
struct response_part {
  enum class kind : std::uint8_t {
    message,
    reasoning,
    call,
    tokens, ///< not an item: the ids of all tokens
  };
  kind what = kind::message;
  std::string id;
  std::string call_id;          ///< of a call
  std::string name;             ///< for a call: name of the function
  std::string text;             ///< for a call: its arguments, as JSON
  score_log scores;             ///< of a message, if the client asked for log-probabilities
  std::vector<token_id> tokens; ///< if the client asked for token ids
  token_speller spell;
  bool is_whole = true; ///< false: the response ended within the item

  std::size_t num_bytes() const noexcept {
    return text.size() + scores.num_bytes() + tokens.size() * sizeof(token_id);
  }
};

/// The parts of a request that events repeat and that may be long.
struct response_echo {
  std::string instructions;
  std::string tools;       ///< JSON
  std::string text_format; ///< JSON; empty: free text

  std::size_t num_bytes() const noexcept { return instructions.size() + tools.size() + text_format.size(); }
};

/// JSON that repeats parts of a response's output or request without copying them. It stores the rest of the
/// JSON (`words`) and the positions in it at which the parts are inserted (`marks`). Immutable; thread-safe
/// once the output is complete.
class output_json {
 public:
  enum class content : std::uint8_t { text, scores, tokens, instructions, tools, text_format };
  struct mark {
    std::size_t position = 0; ///< in `words`
    content what = content::text;
    std::shared_ptr<const response_part> part; ///< null: the mark is for a part of the request
  };

  output_json() = default;
  /// `marks` must be sorted by position. Keeps `echo` alive if a mark refers to it.
  output_json(std::string words, std::vector<mark> marks,
              const std::shared_ptr<const response_echo>& echo = {});

  /// Bytes held, including shared parts; the JSON may be ten times as long.
  std::size_t num_bytes() const noexcept { return words_.size() + shared_bytes(); }
  /// True if the shared parts are too short to gain from being written in pieces.
  bool is_short() const noexcept { return shared_bytes() <= 8U << 10U; }

  /// The JSON as one text.
  std::string text() const;
  /// The JSON piece by piece, with `before` and `after` around it. The source keeps alive what it reads.
  std::unique_ptr<text_source> open(std::string before = {}, std::string after = {}) const;

 private:
  class source;

  std::size_t shared_bytes() const noexcept {
    std::size_t count = echo_ ? echo_->num_bytes() : 0;
    for (const auto* part : parts_) count += part->num_bytes();
    return count;
  }

  std::string words_;
  std::vector<mark> marks_;
  std::vector<const response_part*> parts_; ///< those of the marks, each once
  std::shared_ptr<const response_echo> echo_;
};

} // namespace paceline::wire

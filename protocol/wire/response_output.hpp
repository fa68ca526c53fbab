#pragma once

#include "protocol/wire/kept_output.hpp"
#include "protocol/wire/text_source.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace paceline::wire {

/// What a response has said so far: once, whatever the number of events that repeat it. Constant from its
/// last token on; it is then shared by connections, whose threads read it.
struct response_output {
  std::string text;
  score_log scores;             ///< where the client asked for log-probabilities
  std::vector<token_id> tokens; ///< where the client asked for ids
  token_speller spell;

  std::size_t num_bytes() const noexcept {
    return text.size() + scores.num_bytes() + tokens.size() * sizeof(token_id);
  }
};

/// What a response's events repeat of its request, where it may be long.
struct response_echo {
  std::string instructions;
  std::string tools; ///< JSON

  std::size_t num_bytes() const noexcept { return instructions.size() + tools.size(); }
};

/// JSON that repeats a response's output or request: its other words, and where among them those belong.
/// Constant; thread-safe once the output is.
class output_json {
 public:
  enum class content : std::uint8_t { text, scores, tokens, instructions, tools };
  struct mark {
    std::size_t position = 0; ///< in the other words
    content what = content::text;
  };

  output_json() = default;
  /// `marks` in the order of their positions. Keeps `output` and `echo` if a mark is of theirs.
  output_json(std::string words, std::vector<mark> marks,
              const std::shared_ptr<const response_output>& output,
              const std::shared_ptr<const response_echo>& echo = {});

  /// What it holds, what it shares included; the JSON may have ten times as much.
  std::size_t num_bytes() const noexcept { return words_.size() + shared_bytes(); }
  /// So short that nothing is gained by making it in pieces.
  bool is_short() const noexcept { return shared_bytes() <= 8U << 10U; }

  /// All of it as one text.
  std::string text() const;
  /// The same piece by piece, between `before` and `after`. Keeps alive what it reads.
  std::unique_ptr<text_source> open(std::string before = {}, std::string after = {}) const;

 private:
  class source;

  std::size_t shared_bytes() const noexcept {
    return (output_ ? output_->num_bytes() : 0) + (echo_ ? echo_->num_bytes() : 0);
  }

  std::string words_;
  std::vector<mark> marks_;
  std::shared_ptr<const response_output> output_;
  std::shared_ptr<const response_echo> echo_;
};

} // namespace paceline::wire

#pragma once

#include "protocol/wire/kept_output.hpp"
#include "protocol/wire/text_source.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace paceline::wire {

/// The output of a response, stored once however many events repeat it. Immutable after its last token; then
/// connections share it and read it on their own threads.
struct response_output {
  std::string text;
  score_log scores;             ///< if the client asked for log-probabilities
  std::vector<token_id> tokens; ///< if the client asked for token ids
  token_speller spell;

  std::size_t num_bytes() const noexcept {
    return text.size() + scores.num_bytes() + tokens.size() * sizeof(token_id);
  }
};

/// The parts of a request that events repeat and that may be long.
struct response_echo {
  std::string instructions;
  std::string tools; ///< JSON

  std::size_t num_bytes() const noexcept { return instructions.size() + tools.size(); }
};

/// JSON that repeats a response's output or request: the other text, and the positions at which output and
/// request are inserted. Immutable; thread-safe once the output is complete.
class output_json {
 public:
  enum class content : std::uint8_t { text, scores, tokens, instructions, tools };
  struct mark {
    std::size_t position = 0; ///< in the other text
    content what = content::text;
  };

  output_json() = default;
  /// `marks` must be sorted by position. Keeps `output` and `echo` alive if a mark refers to them.
  output_json(std::string words, std::vector<mark> marks,
              const std::shared_ptr<const response_output>& output,
              const std::shared_ptr<const response_echo>& echo = {});

  /// Bytes it holds, shared parts included; the JSON may be ten times as long.
  std::size_t num_bytes() const noexcept { return words_.size() + shared_bytes(); }
  /// True if the text is too short to gain from being written in pieces.
  bool is_short() const noexcept { return shared_bytes() <= 8U << 10U; }

  /// All of it as one text.
  std::string text() const;
  /// The same text piece by piece, between `before` and `after`. Keeps alive what it reads.
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

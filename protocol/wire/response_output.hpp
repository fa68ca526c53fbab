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

/// JSON that repeats a response's output: its other words, and where among them the output belongs. Constant;
/// thread-safe once the output is.
class output_json {
 public:
  enum class content : std::uint8_t { text, scores, tokens };
  struct mark {
    std::size_t position = 0; ///< in the other words
    content what = content::text;
  };

  output_json() = default;
  /// `marks` in the order of their positions.
  output_json(std::string words, std::vector<mark> marks, std::shared_ptr<const response_output> output)
      : words_(std::move(words)), marks_(std::move(marks)), output_(std::move(output)) {}

  /// What it holds, the shared output included; the JSON may have ten times as much.
  std::size_t num_bytes() const noexcept { return words_.size() + (output_ ? output_->num_bytes() : 0); }
  /// So short that nothing is gained by making it in pieces.
  bool is_short() const noexcept { return !output_ || output_->num_bytes() <= 8U << 10U; }

  /// All of it as one text.
  std::string text() const;
  /// The same piece by piece, between `before` and `after`. Keeps alive what it reads.
  std::unique_ptr<text_source> open(std::string before = {}, std::string after = {}) const;

 private:
  class source;

  std::string words_;
  std::vector<mark> marks_;
  std::shared_ptr<const response_output> output_;
};

} // namespace paceline::wire

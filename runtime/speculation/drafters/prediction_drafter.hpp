#pragma once

#include "runtime/speculation/drafters/ngram_index.hpp"
#include "runtime/speculation/drafters/registry.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace paceline::speculation {

/// Kind "prediction": drafts from the request's `prediction` field (OpenAI's Predicted Outputs). Copies the
/// prediction as long as the output agrees with it. After a divergence it searches the prediction for the
/// longest suffix of the output. Of several matches of this length it takes the first one after the
/// divergence, or else the last one before it. Needs no weights and no device; runs in line.
expected<std::unique_ptr<drafter>> make_prediction_drafter(const drafter_parts& parts);

/// The place in a prediction that a growing output has reached.
class prediction_cursor {
 public:
  /// Processes the output's new tokens.
  void follow(std::span<const token_id> prediction, std::span<const token_id> output);

  /// Position in the prediction of the next expected token; nullopt while the place is unknown.
  std::optional<std::size_t> place() const noexcept { return place_; }
  /// Number of last output tokens that equal the prediction's tokens before `place`. 0 at the start and while
  /// the place is a guess.
  std::size_t num_agreed() const noexcept { return num_agreed_; }

  /// Finds a new place after a divergence: `found` are the places after runs of tokens that agree.
  void find_again(std::span<const token_id> prediction, std::span<const occurrence> found);

 private:
  std::optional<std::size_t> place_ = 0;
  std::size_t lost_at_ = 0; ///< position in the prediction of the last token that was wrong
  std::size_t num_agreed_ = 0;
  std::size_t num_followed_ = 0; ///< output tokens processed
  bool guessed_ = false;         ///< `place_` assumes that one token was replaced by another
};

} // namespace paceline::speculation

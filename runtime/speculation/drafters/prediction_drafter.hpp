#pragma once

#include "runtime/speculation/drafters/ngram_index.hpp"
#include "runtime/speculation/drafters/registry.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace paceline::speculation {

/// Kind "prediction": the client's own draft (OpenAI's Predicted Outputs). Reads on in it as long as the
/// output agrees; after a divergence it finds its place again by the longest run of last tokens that the
/// prediction has, the nearest such place behind the divergence among equals. No weights, no device; runs
/// inline.
expected<std::unique_ptr<drafter>> make_prediction_drafter(const drafter_parts& parts);

/// Where a growing output stands in a prediction.
class prediction_cursor {
 public:
  /// Takes over the output's new tokens.
  void follow(std::span<const token_id> prediction, std::span<const token_id> output);

  /// Position in the prediction of the token expected next; none while the place is lost.
  std::optional<std::size_t> place() const noexcept { return place_; }
  /// Output tokens in a row that were the expected ones. 0 at the start and where the place is a guess.
  std::size_t num_agreed() const noexcept { return num_agreed_; }

  /// Looks for the place of an output that diverged: `found` are places behind runs of tokens that agree.
  void find_again(std::span<const token_id> prediction, std::span<const occurrence> found);

 private:
  std::optional<std::size_t> place_ = 0;
  std::size_t lost_at_ = 0; ///< place of the last divergence: the prediction's token that did not come
  std::size_t num_agreed_ = 0;
  std::size_t num_followed_ = 0; ///< output tokens taken over
  bool guessed_ = false;         ///< `place_` assumes that one token was replaced
};

} // namespace paceline::speculation

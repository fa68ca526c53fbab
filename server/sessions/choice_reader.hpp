#pragma once

#include "protocol/wire/output/output_pipeline.hpp"
#include "runtime/base/token_event.hpp"
#include "server/backend.hpp"

#include <cstdint>
#include <deque>
#include <vector>

namespace paceline::server {

/// Splits the text of one choice into items and counts its reasoning tokens. A token counts if its first byte
/// lies in a thought, so the count does not depend on where events end.
class choice_reader {
 public:
  choice_reader() = default;
  /// `skips_special`: the text has no special tokens. `model` must outlive the reader.
  choice_reader(const wire::output_plan& plan, const model_view& model, bool skips_special);

  /// The items that the event completes. The final event also gives what was held back.
  wire::output_items read(const token_event& event);
  /// Takes the log-probabilities of the event just read. Returns those of tokens of the answer, and holds
  /// back those of tokens that may still turn out to be thoughts.
  std::vector<token_logprob> scores_of_answer(std::vector<token_logprob> scores);

  /// True if no stage looks at the text.
  bool finds_nothing() const noexcept { return pipeline_.finds_nothing(); }
  bool has_calls() const noexcept { return pipeline_.num_calls() > 0; }
  std::uint32_t num_reasoning_tokens() const noexcept { return num_reasoning_tokens_; }

 private:
  void count(const token_event& event);

  wire::output_pipeline pipeline_;
  const model_view* model_ = nullptr;
  bool skips_special_ = true;
  std::uint64_t num_bytes_ = 0;          ///< of the tokens so far
  std::deque<std::uint64_t> begins_;     ///< first bytes of tokens that are not counted yet
  std::vector<token_logprob> scores_;    ///< of tokens that are held back, or of thoughts
  std::uint32_t num_dropped_scores_ = 0; ///< of thoughts
  std::uint32_t num_reasoning_tokens_ = 0;
};

} // namespace paceline::server

#pragma once

#include "protocol/wire/output/output_pipeline.hpp"
#include "runtime/base/token_event.hpp"
#include "server/backend.hpp"

#include <cstdint>
#include <deque>
#include <vector>

namespace paceline::server {

/// Splits the text of one choice into items and counts its reasoning tokens. A token is one of these if its
/// first byte belongs to a thought, so the count does not depend on how tokens are divided into events.
class choice_reader {
 public:
  choice_reader() = default;
  /// `skips_special`: the text has no special tokens. `model` must outlive the reader.
  choice_reader(const wire::output_plan& plan, const model_view& model, bool skips_special);

  /// The items that the event completes. For the final event they include the text that was held back.
  wire::output_items read(const token_event& event);
  /// `scores` are the log-probabilities of the event that was just read. Returns those of tokens of the
  /// answer. Holds back those of tokens that may turn out to be thoughts.
  std::vector<token_logprob> scores_of_answer(std::vector<token_logprob> scores);

  /// True if nothing is separated: all text is the answer.
  bool finds_nothing() const noexcept { return pipeline_.finds_nothing(); }
  bool has_calls() const noexcept { return pipeline_.num_calls() > 0; }
  std::uint32_t num_reasoning_tokens() const noexcept { return num_reasoning_tokens_; }

 private:
  void count(const token_event& event);

  wire::output_pipeline pipeline_;
  const model_view* model_ = nullptr;
  bool skips_special_ = true;
  std::uint64_t num_bytes_ = 0;          ///< bytes of the tokens so far
  std::deque<std::uint64_t> begins_;     ///< positions of the first bytes of tokens that are not counted yet
  std::vector<token_logprob> scores_;    ///< of tokens that may be thoughts, or are
  std::uint32_t num_dropped_scores_ = 0; ///< scores of thoughts that were dropped
  std::uint32_t num_reasoning_tokens_ = 0;
};

} // namespace paceline::server

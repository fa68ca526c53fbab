#pragma once

#include "protocol/wire/output/output_pipeline.hpp"
#include "runtime/base/token_event.hpp"
#include "server/backend.hpp"

#include <cstdint>
#include <deque>
#include <vector>

namespace paceline::server {

/// Reads the events of one choice: makes items of their text and counts the tokens of thoughts. A token
/// belongs to them if its first byte does, so the count does not depend on the events' bounds.
class choice_reader {
 public:
  choice_reader() = default;
  /// `skips_special`: the text has no special tokens. `model` must outlive the reader.
  choice_reader(const wire::output_plan& plan, const model_view& model, bool skips_special);

  /// What the event adds; with the last one, also what waited.
  wire::output_items read(const token_event& event);
  /// Of the log-probabilities of the tokens of the event just read, and of earlier ones that waited, those of
  /// tokens that are known to be no thoughts.
  std::vector<token_logprob> scores_of_answer(std::vector<token_logprob> scores);

  bool finds_nothing() const noexcept { return pipeline_.finds_nothing(); }
  bool has_calls() const noexcept { return pipeline_.num_calls() > 0; }
  std::uint32_t num_reasoning_tokens() const noexcept { return num_reasoning_tokens_; }

 private:
  void count(const token_event& event);

  wire::output_pipeline pipeline_;
  const model_view* model_ = nullptr;
  bool skips_special_ = true;
  std::uint64_t num_bytes_ = 0;          ///< of the tokens so far
  std::deque<std::uint64_t> begins_;     ///< first bytes of tokens of which it is not known yet
  std::vector<token_logprob> scores_;    ///< of tokens of which it is not known yet, or of thoughts
  std::uint32_t num_dropped_scores_ = 0; ///< of thoughts
  std::uint32_t num_reasoning_tokens_ = 0;
};

} // namespace paceline::server

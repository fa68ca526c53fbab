#pragma once

#include "protocol/wire/output/output_pipeline.hpp"
#include "runtime/base/token_event.hpp"
#include "server/backend.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace paceline::server {

/// Splits the text of one choice into items and counts its reasoning tokens. A token counts as a reasoning
/// token if its first byte belongs to a thought, so the count does not depend on how tokens are divided into
/// events.
class choice_reader {
 public:
  choice_reader() = default;
  /// `skips_special`: the text does not include special tokens. `model` must outlive the reader.
  choice_reader(const wire::output_plan& plan, const model_view& model, bool skips_special);

  /// The items that the event completes. For the final event they include the text that was held back.
  wire::output_items read(const token_event& event);
  /// `scores` are the log-probabilities of the event that was just read. Returns the log-probabilities of the
  /// tokens that are known to belong to the answer; the first byte of a token decides where it belongs. Keeps
  /// back the log-probabilities of tokens that may turn out to be thoughts or a call.
  std::vector<token_logprob> scores_of_answer(std::vector<token_logprob> scores);

  /// True if all further output would be dropped, and no constraint ends the output by itself. The caller
  /// should then stop the generation.
  bool wants_no_more() const noexcept { return pipeline_.is_full() && !ends_itself_; }
  /// The finish reason to report if the last event has the reason `finish`. If the last permitted call is
  /// complete, the output is complete, so `length` and `cancelled` become `stop`.
  finish_reason finish_of(finish_reason finish) const noexcept {
    const bool is_cut = finish == finish_reason::length || finish == finish_reason::cancelled;
    return is_cut && pipeline_.is_full() ? finish_reason::stop : finish;
  }

  /// True if nothing is separated: all text is the answer.
  bool finds_nothing() const noexcept { return pipeline_.finds_nothing(); }
  bool has_calls() const noexcept { return pipeline_.num_calls() > 0; }
  std::uint32_t num_reasoning_tokens() const noexcept { return num_reasoning_tokens_; }

 private:
  struct placed_score {
    std::uint64_t begin = 0; ///< position of the token's first byte
    token_logprob score;
  };

  void count(const token_event& event);
  std::size_t bytes_of(token_id token) const;

  wire::output_pipeline pipeline_;
  const model_view* model_ = nullptr;
  bool skips_special_ = true;
  bool ends_itself_ = false;
  std::uint64_t num_bytes_ = 0;      ///< bytes of the tokens so far
  std::deque<std::uint64_t> begins_; ///< positions of the first bytes of tokens that are not counted yet
  std::uint32_t num_reasoning_tokens_ = 0;
  std::uint64_t num_scored_bytes_ = 0; ///< bytes of the tokens whose scores were given
  std::deque<placed_score> scores_;    ///< of tokens that may be thoughts or a call
};

} // namespace paceline::server

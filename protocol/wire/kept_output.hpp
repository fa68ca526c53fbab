#pragma once

#include "protocol/wire/byte_log.hpp"
#include "protocol/wire/usage.hpp"
#include "runtime/base/request_limits.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace paceline::wire {

/// Holds the log-probabilities of a choice until its reply is written. A token id and its value take about 7
/// bytes. Ids are converted to text when the reply is written.
class score_log {
 public:
  void append(const token_logprob& score);
  /// Appends the first token of a prompt, which has no score.
  void append_without_score(token_id token);
  std::size_t size() const noexcept { return size_; }
  std::size_t num_bytes() const noexcept { return bytes_.size(); }

  /// Iterates over the scores; the log must outlive it.
  class reader {
   public:
    explicit reader(const score_log& log) : at_(log.bytes_) {}
    bool at_end() const noexcept { return at_.at_end(); }
    token_score next(const token_speller& spell);

   private:
    byte_log::cursor at_;
  };

 private:
  byte_log bytes_;
  std::size_t size_ = 0;
};

/// Holds the round traces of a choice until its reply is written.
class round_log {
 public:
  /// Upper bound of the bytes of a round that commits one token, if `auto` compared at most 16 drafters. A
  /// round that commits more tokens needs fewer bytes for each token.
  static constexpr std::size_t most_bytes = 96 + 16 * 14 + max_draft_length * 8;

  void append(const round_trace& round);
  bool empty() const noexcept { return bytes_.size() == 0; }
  std::size_t num_bytes() const noexcept { return bytes_.size(); }

  class reader {
   public:
    explicit reader(const round_log& log) : log_(&log), at_(log.bytes_) {}
    bool at_end() const noexcept { return at_.at_end(); }
    round_trace next();

   private:
    std::optional<draft_choice> next_choice();
    work_span next_span();

    const round_log* log_;
    byte_log::cursor at_;
  };

 private:
  std::uint64_t number_of(const std::string& drafter);
  void append(const std::optional<draft_choice>& choice);
  void append(const work_span& span);

  byte_log bytes_;
  std::vector<std::string> drafters_; ///< names of drafters, in the order of their first appearance
};

} // namespace paceline::wire

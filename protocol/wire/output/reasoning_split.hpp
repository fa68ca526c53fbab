#pragma once

#include "protocol/wire/output/output_format.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::wire {

/// The first stage of output_pipeline: separates thoughts from the answer. Thoughts are at the beginning of
/// the output, between two markers. The markers and the blanks around thoughts are dropped, unless
/// `plan.keeps_reasoning_in_text`.
class reasoning_split {
 public:
  explicit reasoning_split(const output_plan& plan);

  struct parts {
    std::string reasoning;
    std::string answer;
  };
  /// Text that may be the beginning of a marker is held back until more text comes. From the first marker of
  /// a call on, thoughts are held back until their closing marker comes. If the output ends without it, the
  /// text that is held back may contain a call.
  parts feed(std::string_view text);
  /// The output has ended: returns the text that was held back.
  parts finish();

  /// The thoughts that are held back from the first marker of a call on; empty if there are none.
  std::string_view possible_call() const noexcept { return holds_call_ ? held_ : std::string_view(); }
  /// Replaces `possible_call` by the part of it that is thoughts.
  void take_calls(std::string thoughts) { held_ = std::move(thoughts); }

  /// Bytes of the output that are known to be thoughts or their markers.
  std::size_t reasoning_bytes() const noexcept { return reasoning_bytes_; }
  /// True until the answer has begun: until then `reasoning_bytes` may grow.
  bool may_reason() const noexcept { return state_ != state::answer; }

 private:
  enum class state : std::uint8_t { before, inside, answer };

  void read_before(parts& out);
  void read_inside(parts& out);
  void take_reasoning(std::size_t size, parts& out);
  void add_reasoning(std::string_view text, parts& out);

  reasoning_markers markers_;
  std::span<const std::string_view> call_markers_;
  bool keeps_markers_;
  state state_;
  std::string held_;
  std::size_t searched_ = 0;   ///< bytes of `held_` in which the closing marker does not begin
  bool holds_call_ = false;    ///< `held_` begins with a marker of a call
  std::string blanks_;         ///< blanks after thoughts; dropped if the closing marker follows
  bool has_reasoning_ = false; ///< a thought other than blanks has been read
  bool skips_blanks_ = false;  ///< the blanks before the answer are dropped
  std::size_t reasoning_bytes_ = 0;
};

} // namespace paceline::wire

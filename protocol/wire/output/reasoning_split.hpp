#pragma once

#include "protocol/wire/output/output_format.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::wire {

/// The first stage of output_pipeline: separates thoughts from the answer. Thoughts are at the beginning of
/// the output, between two markers. The markers and the blanks around thoughts are dropped.
class reasoning_split {
 public:
  reasoning_split(reasoning_markers markers, bool begins_inside)
      : markers_(std::move(markers)), state_(begins_inside ? state::inside : state::before) {}

  struct parts {
    std::string reasoning;
    std::string answer;
  };
  /// Text that may be the beginning of a marker is held back until more text comes.
  parts feed(std::string_view text);
  /// The output has ended: returns the text that was held back.
  parts finish();

  /// Bytes of the output that are known to be thoughts or their markers.
  std::size_t reasoning_bytes() const noexcept { return reasoning_bytes_; }
  /// True until the answer has begun: until then `reasoning_bytes` may grow.
  bool may_reason() const noexcept { return state_ != state::answer; }

 private:
  enum class state : std::uint8_t { before, inside, answer };

  void read_before();
  void read_inside(parts& out);
  void add_reasoning(std::string_view text, parts& out);

  reasoning_markers markers_;
  state state_;
  std::string held_;
  std::string blanks_;         ///< blanks after thoughts; dropped if the closing marker follows
  bool has_reasoning_ = false; ///< a thought other than blanks has been read
  bool skips_blanks_ = false;  ///< the blanks before the answer are dropped
  std::size_t reasoning_bytes_ = 0;
};

} // namespace paceline::wire

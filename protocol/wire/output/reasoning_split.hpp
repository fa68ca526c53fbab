#pragma once

#include "protocol/wire/output/output_format.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::wire {

/// The first stage of a pipeline: tells thoughts from the answer. Thoughts stand at the beginning of the
/// output, between two markers; the markers and the blanks around thoughts are dropped.
class reasoning_split {
 public:
  reasoning_split(reasoning_markers markers, bool begins_inside)
      : markers_(std::move(markers)), state_(begins_inside ? state::inside : state::before) {}

  struct parts {
    std::string reasoning;
    std::string answer;
  };
  /// Text that may be the beginning of a marker waits for what follows.
  parts feed(std::string_view text);
  /// The output has ended: returns what waits.
  parts finish();

  /// Bytes of the output that are known to be thoughts or their markers.
  std::size_t reasoning_bytes() const noexcept { return reasoning_bytes_; }
  /// True while the output may still go on with thoughts.
  bool may_reason() const noexcept { return state_ != state::answer; }

 private:
  enum class state : std::uint8_t { before, inside, answer };

  void read_before();
  void read_inside(parts& out);
  void add_reasoning(std::string_view text, parts& out);

  reasoning_markers markers_;
  state state_;
  std::string held_;
  std::string blanks_;         ///< behind thoughts: dropped if nothing but the marker follows
  bool has_reasoning_ = false; ///< a thought that is not blank
  bool skips_blanks_ = false;  ///< in front of the answer
  std::size_t reasoning_bytes_ = 0;
};

} // namespace paceline::wire

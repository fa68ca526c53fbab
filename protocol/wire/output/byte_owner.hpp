#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace paceline::wire {

/// What a byte of the output belongs to.
enum class byte_owner : std::uint8_t {
  answer,
  other,     ///< thoughts, a call, their markers, or output that is dropped
  undecided, ///< the text that follows decides
};

/// Records which bytes of a text belong to calls. Calls are recorded in order and do not overlap.
class call_bytes {
 public:
  /// The text from the byte `at` on may be a call. Afterwards call `end` or `withdraw`.
  void begin(std::size_t at) {
    spans_.push_back({at, endless});
    is_certain_ = false;
  }
  /// The text that was begun is a call.
  void confirm() noexcept { is_certain_ = true; }
  /// The text that was begun is not a call.
  void withdraw() {
    spans_.pop_back();
    is_certain_ = true;
  }
  /// The call ends before the byte `at`.
  void end(std::size_t at) {
    spans_.back().end = at;
    is_certain_ = true;
  }
  /// The next `count` bytes after the last call belong to it, too.
  void extend(std::size_t count) {
    if (!spans_.empty()) spans_.back().end += count;
  }
  bool ends_at(std::size_t at) const noexcept { return !spans_.empty() && spans_.back().end == at; }

  byte_owner owner_of(std::size_t at) const noexcept {
    for (auto span = spans_.rbegin(); span != spans_.rend(); ++span) {
      if (at < span->begin) continue;
      if (at >= span->end) return byte_owner::answer;
      return is_certain_ || span != spans_.rbegin() ? byte_owner::other : byte_owner::undecided;
    }
    return byte_owner::answer;
  }
  /// True if the byte `at` is in the last call or after it.
  bool is_late(std::size_t at) const noexcept { return !spans_.empty() && at >= spans_.back().begin; }

 private:
  static constexpr auto endless = std::numeric_limits<std::size_t>::max();
  struct span {
    std::size_t begin, end;
  };
  std::vector<span> spans_;
  bool is_certain_ = true; ///< the last span is a call
};

} // namespace paceline::wire

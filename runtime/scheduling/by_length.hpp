#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace paceline::scheduling {

/// A function of the draft length in levels, such as the number of rows that a draft needs. It stores its
/// results, so that it asks the drafter only once for each length, although the scheduler needs the value
/// several times in a round. Not thread-safe.
class by_length {
 public:
  by_length() = default;
  template <class Of>
  requires(!std::same_as<Of, by_length> && std::is_invocable_r_v<std::uint32_t, Of&, std::uint32_t>)
      by_length(Of of)
      : of_(std::move(of)) {}

  explicit operator bool() const noexcept { return of_ != nullptr; }
  std::uint32_t operator()(std::uint32_t draft_length) const {
    if (draft_length >= known_.size()) known_.resize(std::size_t{draft_length} + 1);
    auto& known = known_[draft_length];
    if (!known) known = of_(draft_length);
    return *known;
  }

 private:
  std::function<std::uint32_t(std::uint32_t draft_length)> of_;
  mutable std::vector<std::optional<std::uint32_t>> known_; ///< by length
};

} // namespace paceline::scheduling

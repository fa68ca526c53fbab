#pragma once

#include <cstdint>
#include <exception>

namespace paceline::grammar {

/// Thrown when the grammar library has done as much work as it may.
struct work_exhausted final : std::exception {
  const char* what() const noexcept override { return "the grammar takes too much work"; }
};

/// While a `work_limit` exists, the grammar library subtracts its work on this thread from `left`, and throws
/// `work_exhausted` when nothing is left. The library object that was working is then unusable. One unit is
/// about 50 ns. The count depends on the grammar, the vocabulary and the calls, not on the machine. `left`
/// must outlive the limit. If limits are nested, only the innermost counts.
class work_limit {
 public:
  explicit work_limit(std::uint64_t& left) noexcept;
  ~work_limit();
  work_limit(const work_limit&) = delete;
  work_limit& operator=(const work_limit&) = delete;

 private:
  std::uint64_t* outer_;
};

} // namespace paceline::grammar

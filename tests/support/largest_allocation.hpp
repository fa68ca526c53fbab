#pragma once

#include <cstddef>

namespace paceline::test {

/// Linking this in replaces operator new of the whole program by one that remembers its largest request. For
/// programs whose allocations of interest are on one thread.

/// Forgets what was requested so far.
void reset_largest_allocation() noexcept;

/// Bytes of the largest request of operator new since the last reset, alignments above the default left out.
std::size_t largest_allocation() noexcept;

/// Requests of operator new since the last reset.
std::size_t num_allocations() noexcept;

} // namespace paceline::test

#pragma once

#include <cstddef>

namespace paceline::test {

/// Replaces the program's operator new by one that records its largest request. For programs whose relevant
/// allocations are on one thread.

/// Resets the records.
void reset_largest_allocation() noexcept;

/// Bytes of the largest request of operator new since the last reset, without over-aligned requests.
std::size_t largest_allocation() noexcept;

/// Bytes of all requests of operator new since the last reset, freed or not, likewise.
std::size_t allocated_bytes() noexcept;

/// Number of requests of operator new since the last reset.
std::size_t num_allocations() noexcept;

} // namespace paceline::test

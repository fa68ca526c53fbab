#pragma once

#include "runtime/base/token_constraint.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace paceline::test {

/// The work that a cursor may do: `first`, and `per_token` for each token of the longest text that it was
/// asked about.
struct work_budget {
  std::uint64_t first = 0;
  std::uint64_t per_token = 0;
};

/// A constraint over `vocab_size` tokens that allows what `inner` allows. A mask is a unit of work, and so is
/// each token that is judged or forced. A cursor whose work is used up allows nothing any more;
/// `num_exhausted` counts these cursors.
std::shared_ptr<const token_constraint>
make_metered_constraint(std::shared_ptr<const token_constraint> inner, std::uint32_t vocab_size,
                        work_budget budget, std::shared_ptr<std::atomic<int>> num_exhausted);

} // namespace paceline::test

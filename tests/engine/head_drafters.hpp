#pragma once

#include "runtime/speculation/drafters/registry.hpp"
#include "tests/support/model_drafters.hpp"

#include <memory>
#include <utility>

namespace paceline::testing {

/// Learned drafters of every shape for hash models that read their whole context: the heads are workers,
/// "ppd_rows" has rows in the target's pass. Each name is a kind, see `model_drafter_parts`.
inline constexpr const char* hash_heads[] = {"head_dynamic", "head_parallel_static", "head_path_static",
                                             "head",         "head_block",           "ppd_rows"};

inline speculation::drafter_registry with_hash_heads(speculation::drafter_registry registry) {
  for (const char* const kind : hash_heads)
    registry.add(kind, [kind](const auto& parts) -> expected<std::unique_ptr<speculation::drafter>> {
      const auto& target = parts.target->info();
      auto made = test::model_drafter_parts(
          kind, {.vocab_size = target.vocab_size, .context_length = target.context_length});
      made.options.draft_length = parts.options.draft_length;
      return speculation::drafter_registry::with_built_in().make(made);
    });
  return registry;
}

} // namespace paceline::testing

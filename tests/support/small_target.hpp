#pragma once

#include "runtime/model/hash_model.hpp"

#include <cstdint>

namespace paceline::test {

/// A target whose text has repetitions, so that every drafter has something to find.
inline model::hash_model_config small_target(std::uint32_t context_length = 4096) {
  return {.vocab_size = 64, .context_length = context_length};
}

} // namespace paceline::test

#pragma once

#include "tests/support/gguf_builder.hpp"

#include <cstdint>

namespace paceline::test {

/// Adds a vocabulary of `size` entries to a file: byte-level BPE with ten merges (at least 269 entries), or
/// SPM with byte fallback (at least 272). The remaining entries are filler tokens `<unusedN>`.
void set_bpe_vocabulary(gguf_builder& file, std::uint32_t size);
void set_spm_vocabulary(gguf_builder& file, std::uint32_t size);

} // namespace paceline::test

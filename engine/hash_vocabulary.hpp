#pragma once

#include "runtime/tokenizer/vocabulary.hpp"

#include <cstdint>

namespace paceline {

/// The vocabulary of a hash model: the 256 bytes, then "<bos>" and "<eos>", then words without meaning up to
/// `vocab_size`. Any text can be a prompt, and any token has a text.
tokenizer::vocabulary_data hash_vocabulary(std::uint32_t vocab_size);

} // namespace paceline

#pragma once

#include "runtime/tokenizer/vocabulary.hpp"

#include <cstdint>

namespace paceline {

/// The vocabulary of a hash model, which has no weights (runtime/model/hash_model.hpp). Token i below 256 is
/// byte i, 256 is "<bos>", 257 is "<eos>", and every token i from 258 to `vocab_size` - 1 has the text "[i]".
/// So every text can be a prompt, and every token has a text. `vocab_size` must be at least 258.
tokenizer::vocabulary_data hash_vocabulary(std::uint32_t vocab_size);

} // namespace paceline

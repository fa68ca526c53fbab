#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/model/loader/gguf/gguf_metadata.hpp"
#include "runtime/tokenizer/vocabulary.hpp"

namespace paceline::model {

/// Reads the vocabulary from a GGUF file's `tokenizer.*` keys. Checks that lists have equal lengths, that ids
/// are below the number of tokens, that merges have two parts and that byte tokens are spelled <0xHH>. Kinds
/// other than "gpt2" and "gemma4" (BPE) and "llama" (SPM) are refused with an error that names them.
/// `eos_like` holds the end tokens that the file names and every token whose spelling ends a generation
/// (known_spellings.hpp).
expected<tokenizer::vocabulary_data> read_gguf_vocabulary(const gguf_metadata& metadata);

} // namespace paceline::model

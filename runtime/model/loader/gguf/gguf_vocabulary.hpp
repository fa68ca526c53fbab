#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/model/loader/gguf/gguf_metadata.hpp"
#include "runtime/tokenizer/vocabulary.hpp"

namespace paceline::model {

/// Reads the vocabulary from a GGUF file's `tokenizer.*` keys: lists of equal length, ids below the number of
/// tokens, merges of two parts, byte tokens spelled <0xHH>. Kinds other than "gpt2" and "gemma4" (BPE) and
/// "llama" (SPM) are refused with an error that names them. `eos_like` holds what the file names and every
/// token whose spelling ends a generation (known_spellings.hpp).
expected<tokenizer::vocabulary_data> read_gguf_vocabulary(const gguf_metadata& metadata);

} // namespace paceline::model

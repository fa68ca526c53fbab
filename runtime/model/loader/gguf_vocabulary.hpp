#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/model/loader/gguf_metadata.hpp"
#include "runtime/tokenizer/vocabulary.hpp"

#include <string_view>

namespace paceline::model {

/// True for spellings of tokens that end a turn or a text in the supported families ("<|im_end|>",
/// "<|eot_id|>"). Files often name only one of them as EOS.
bool is_end_of_turn_name(std::string_view token) noexcept;

/// Reads the vocabulary from a GGUF file's `tokenizer.*` keys: lists of equal length, ids below the number of
/// tokens, merges of two parts, byte tokens spelled <0xHH>. Kinds other than "gpt2" and "gemma4" (BPE) and
/// "llama" (SPM) are refused with an error that names them.
expected<tokenizer::vocabulary_data> read_gguf_vocabulary(const gguf_metadata& metadata);

} // namespace paceline::model

#pragma once

#include "runtime/base/ids.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace paceline::tokenizer {

/// Kind of a vocabulary entry. Values are GGUF's.
enum class token_type : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

/// Algorithm that divides text into tokens.
enum class vocabulary_kind : std::uint8_t {
  bpe, ///< byte-level BPE with ranked merges (GGUF "gpt2")
  spm, ///< SentencePiece BPE by score, with byte fallback (GGUF "llama")
};

/// A vocabulary as read from a file, independent of the file's format. runtime/model/loader fills it from
/// GGUF metadata. The loader also checks that `scores` and `types` are empty or as long as `tokens`, and that
/// special ids are below that length.
struct vocabulary_data {
  vocabulary_kind kind = vocabulary_kind::bpe;
  std::string model_name;          ///< GGUF's general.name, from which some settings follow; may be empty
  std::string pre;                 ///< GGUF's tokenizer.ggml.pre: the pre-tokenizer's name; may be empty
  std::vector<std::string> tokens; ///< as stored: byte-level spelling for bpe, U+2581 for spaces in spm
  std::vector<float> scores;       ///< spm
  std::vector<token_type> types;
  std::vector<std::pair<std::string, std::string>> merges; ///< bpe, in rank order
  std::optional<token_id> bos, eos, eot, eom, unk, pad;
  std::vector<token_id> eos_like; ///< all ids that end a generation (eos, eot, eom, known end-of-turn names)
  std::optional<bool> add_bos, add_eos, add_space_prefix; ///< nullopt: not in the file; a default applies
  std::string chat_template;                              ///< Jinja source, empty if the file has none
};

} // namespace paceline::tokenizer

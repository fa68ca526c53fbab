#pragma once

#include "runtime/tokenizer/added_tokens.hpp"
#include "runtime/tokenizer/models/bpe_model.hpp"
#include "runtime/tokenizer/models/spm_model.hpp"
#include "runtime/tokenizer/models/unigram_model.hpp"
#include "runtime/tokenizer/normalizer.hpp"
#include "runtime/tokenizer/pre_tokenizers/pre_tokenizer.hpp"
#include "runtime/tokenizer/text/string_list.hpp"
#include "runtime/tokenizer/text/token_lengths.hpp"
#include "runtime/tokenizer/text/token_table.hpp"
#include "runtime/tokenizer/vocabulary.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

namespace paceline::tokenizer {

/// The stages of encoding, in order, and the data for decoding. Filled by a file reader, then immutable.
struct tokenizer_parts {
  using model_variant = std::variant<bpe_model, spm_model, unigram_model>;

  tokenizer_parts(std::shared_ptr<const token_table> table, model_variant m)
      : tokens(std::move(table)), model(std::move(m)) {}

  std::shared_ptr<const token_table> tokens;
  std::vector<token_type> types; ///< one for each token
  string_list pieces;            ///< the bytes of each token in a text

  added_tokens raw_tokens;        ///< found in the original text
  normalizer normalize;           ///< applied to the text between raw tokens
  added_tokens normalized_tokens; ///< found in normalized text
  pre_tokenizer split;
  model_variant model;
  token_lengths lengths;               ///< for models that can spell every text; empty otherwise
  std::vector<token_id> before, after; ///< added around the text with add_special

  bool strip_leading_space = false; ///< decoded text loses a space at its start
  std::optional<token_id> bos, eos, pad;
  std::vector<token_id> eos_like; ///< ascending
  std::uint64_t hash = 0;         ///< over pieces

  /// Computes `hash` and `lengths` and sorts `eos_like`; must be called last by a reader.
  void finish();
};

} // namespace paceline::tokenizer

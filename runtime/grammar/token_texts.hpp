#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <xgrammar/tokenizer_info.h>

#include <cstdint>
#include <vector>

namespace paceline::grammar {

/// The bytes that each token of a vocabulary adds to a text, for grammars. Special tokens add no bytes, so no
/// grammar allows them, except the tokens that end an output. Immutable.
struct token_texts {
  tokenizer::tokenizer vocabulary;
  std::uint32_t vocab_size; ///< tokens in the model's logits
  xgrammar::TokenizerInfo info;
  std::vector<bool> usable; ///< tokens that a grammar may allow, including those that end an output
};

/// `end_ids` outside of the vocabulary are ignored.
token_texts make_token_texts(const tokenizer::tokenizer& vocabulary, std::uint32_t vocab_size,
                             const std::vector<token_id>& end_ids);

} // namespace paceline::grammar

#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <xgrammar/tokenizer_info.h>

#include <cstdint>
#include <vector>

namespace paceline::grammar {

/// A vocabulary as grammars see it: the bytes that each token adds to a text. Special tokens have none, so no
/// grammar allows them, except those that end an output. Immutable.
struct token_texts {
  tokenizer::tokenizer vocabulary;
  std::uint32_t vocab_size; ///< tokens in the model's logits
  xgrammar::TokenizerInfo info;
  std::vector<bool> usable; ///< tokens that a grammar may allow, the ending ones included
};

/// `end_ids` outside of the vocabulary are ignored.
token_texts make_token_texts(const tokenizer::tokenizer& vocabulary, std::uint32_t vocab_size,
                             const std::vector<token_id>& end_ids);

} // namespace paceline::grammar

#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <xgrammar/tokenizer_info.h>

#include <cstdint>
#include <vector>

namespace paceline::grammar {

/// A vocabulary as grammars see it: the bytes of every token, and which tokens a grammar may allow. Special
/// tokens and tokens without bytes are never allowed, except the tokens that end an output. Immutable, so
/// threads may share it.
struct token_texts {
  tokenizer::tokenizer vocabulary;
  std::uint32_t vocab_size;     ///< number of logits in a row
  xgrammar::TokenizerInfo info; ///< the bytes of the tokens; special tokens and ends of an output have none
  std::vector<bool> usable;     ///< by token id, `vocab_size` in all: a grammar may allow the token
};

/// `end_ids`: tokens that end an output. Ids that are outside of the vocabulary or at least `vocab_size` are
/// ignored.
token_texts make_token_texts(const tokenizer::tokenizer& vocabulary, std::uint32_t vocab_size,
                             const std::vector<token_id>& end_ids);

} // namespace paceline::grammar

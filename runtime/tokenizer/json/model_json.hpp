#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/base/json_node.hpp"
#include "runtime/tokenizer/text/token_table.hpp"
#include "runtime/tokenizer/tokenizer_parts.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace paceline::tokenizer {

inline constexpr std::uint32_t max_json_tokens = 1U << 24;

/// The tokens in member "model".
struct model_vocabulary {
  std::vector<std::string> spellings; ///< by id; empty for ids that the file skips
  std::vector<double> scores;         ///< of a Unigram model, by id
  std::optional<token_id> unknown;
};

/// Reads the tokens of a BPE or Unigram model. Any other kind of model is an error that names the kind.
model_vocabulary read_model_vocabulary(const json_node& model);

/// Makes the model from its own tokens, which need not include the added tokens. nullopt after an error.
std::optional<tokenizer_parts::model_variant> make_model(const json_node& model,
                                                         const model_vocabulary& vocabulary);

} // namespace paceline::tokenizer

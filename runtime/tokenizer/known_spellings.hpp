#pragma once

#include <string_view>

namespace paceline::tokenizer {

// Many model files do not mark their control tokens, or do not list the tokens that end a turn. The spellings
// below have the same meaning in all files. All functions compare the whole spelling.

/// True for tokens that end a turn or a text ("<|im_end|>"). Not for "</s>": in some vocabularies it is an
/// HTML tag, and where it ends texts the file names it as EOS.
bool ends_generation(std::string_view spelling) noexcept;

/// True for a token of those that only ends a message, behind which the model goes on: <|end|> in a
/// vocabulary that has <|return|> and <|call|> to end a generation (gpt-oss). `has`: whether it has a token.
template <typename Has>
bool ends_only_a_message(std::string_view spelling, const Has& has) {
  return spelling == "<|end|>" && has("<|return|>") && has("<|call|>");
}

/// True for tokens that are control tokens whatever the file says: those that end a generation, and
/// fill-in-the-middle markers.
bool is_control_spelling(std::string_view spelling) noexcept;

/// True for tokens that belong to a model's visible output although the file calls them control tokens
/// ("<|channel|>").
bool is_visible_spelling(std::string_view spelling) noexcept;

} // namespace paceline::tokenizer

#pragma once

#include <string_view>

namespace paceline::tokenizer {

// Many model files do not mark their control tokens, or do not list the tokens that end a turn. The functions
// below know spellings that have the same meaning in all files. They compare the whole spelling.

/// True for tokens that end a turn or a text ("<|im_end|>"), and for tokens that end a fill-in-the-middle
/// completion ("<|file_sep|>", "<|fim_pad|>"): text after these belongs to another file. False for "</s>": in
/// some vocabularies it is an HTML tag, and files in which it ends texts name it as EOS.
bool ends_generation(std::string_view spelling) noexcept;

/// True for <|end|> if the vocabulary has other tokens to end a generation: <|return|> and <|call|> (gpt-oss)
/// or <|flush|> and <|calls|> (Solar). There, <|end|> ends a message, after which the model goes on, although
/// `ends_generation` is true for it. `has(spelling)`: whether the vocabulary has this token.
template <typename Has>
bool ends_only_a_message(std::string_view spelling, const Has& has) {
  return spelling == "<|end|>" && (has("<|call|>") || has("<|calls|>")) &&
         (has("<|return|>") || has("<|flush|>"));
}

/// True for tokens that are control tokens even if the file does not mark them: those that end a generation,
/// and fill-in-the-middle markers.
bool is_control_spelling(std::string_view spelling) noexcept;

/// True for tokens that belong to a model's visible output although the file calls them control tokens
/// ("<|channel|>").
bool is_visible_spelling(std::string_view spelling) noexcept;

} // namespace paceline::tokenizer

#pragma once

#include <string_view>

namespace paceline::tokenizer {

/// Many files do not mark control tokens or list the tokens that end a turn. These spellings have the same
/// meaning in all files.

/// True for tokens that end a turn or a text ("<|im_end|>"). Not for "</s>": in some vocabularies it is an
/// HTML tag, and where it ends texts the file names it as EOS.
bool ends_generation(std::string_view spelling) noexcept;

/// True for control tokens, whatever the file says: tokens that end a generation, and fill-in-the-middle
/// markers.
bool is_control_spelling(std::string_view spelling) noexcept;

/// True for tokens that belong to a model's visible output although the file calls them control tokens
/// ("<|channel|>").
bool is_visible_spelling(std::string_view spelling) noexcept;

} // namespace paceline::tokenizer

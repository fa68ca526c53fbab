#pragma once

#include <string_view>

namespace paceline::tokenizer {

/// Files forget to mark control tokens and to list what ends a turn; these spellings have one meaning
/// everywhere.

/// Ends a turn or a text ("<|im_end|>"). "</s>" is not
/// among them: in some vocabularies it is a tag of HTML, and where it ends texts the file names it as EOS.
bool ends_generation(std::string_view spelling) noexcept;

/// A control token even where the file says otherwise: what ends generation, and the marks of
/// fill-in-the-middle.
bool is_control_spelling(std::string_view spelling) noexcept;

/// Part of the visible protocol of a model although the file calls it a control token ("<|channel|>").
bool is_visible_spelling(std::string_view spelling) noexcept;

} // namespace paceline::tokenizer

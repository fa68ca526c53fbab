#include "runtime/tokenizer/pre_tokenizers/pattern_properties.hpp"

#include <algorithm>
#include <span>

namespace paceline::tokenizer {

namespace {

/// Names without blanks, in lower case.
struct named_members {
  std::string_view name;
  std::string_view members;
};

constexpr named_members posix_classes[] = {
    {"alnum", R"(\p{Alphabetic}\p{Nd})"},
    {"alpha", R"(\p{Alphabetic})"},
    {"ascii", R"(\x00-\x7f)"},
    {"blank", R"(\t\p{Zs})"},
    {"cntrl", R"(\p{Cc})"},
    {"digit", digit_members},
    {"lower", R"(\p{Lowercase})"},
    {"punct", R"(\p{P})"},
    {"space", space_members},
    {"upper", R"(\p{Uppercase})"},
    {"word", word_members},
    {"xdigit", hex_digit_members},
};

constexpr named_members general_categories[] = {
    {"letter", R"(\p{L})"},
    {"uppercaseletter", R"(\p{Lu})"},
    {"lowercaseletter", R"(\p{Ll})"},
    {"titlecaseletter", R"(\p{Lt})"},
    {"modifierletter", R"(\p{Lm})"},
    {"otherletter", R"(\p{Lo})"},
    {"mark", R"(\p{M})"},
    {"combiningmark", R"(\p{M})"},
    {"nonspacingmark", R"(\p{Mn})"},
    {"spacingmark", R"(\p{Mc})"},
    {"enclosingmark", R"(\p{Me})"},
    {"number", R"(\p{N})"},
    {"decimalnumber", R"(\p{Nd})"},
    {"letternumber", R"(\p{Nl})"},
    {"othernumber", R"(\p{No})"},
    {"punctuation", R"(\p{P})"},
    {"connectorpunctuation", R"(\p{Pc})"},
    {"dashpunctuation", R"(\p{Pd})"},
    {"openpunctuation", R"(\p{Ps})"},
    {"closepunctuation", R"(\p{Pe})"},
    {"initialpunctuation", R"(\p{Pi})"},
    {"finalpunctuation", R"(\p{Pf})"},
    {"otherpunctuation", R"(\p{Po})"},
    {"symbol", R"(\p{S})"},
    {"mathsymbol", R"(\p{Sm})"},
    {"currencysymbol", R"(\p{Sc})"},
    {"modifiersymbol", R"(\p{Sk})"},
    {"othersymbol", R"(\p{So})"},
    {"separator", R"(\p{Z})"},
    {"spaceseparator", R"(\p{Zs})"},
    {"lineseparator", R"(\p{Zl})"},
    {"paragraphseparator", R"(\p{Zp})"},
    {"other", R"(\p{C})"},
    {"control", R"(\p{Cc})"},
    {"format", R"(\p{Cf})"},
    {"privateuse", R"(\p{Co})"},
    {"unassigned", R"(\p{Cn})"},
};

/// Long names with the same meaning in both engines.
constexpr std::string_view shared_names[] = {
    "any",
    "alphabetic",
    "uppercase",
    "lowercase",
    "whitespace",
    "ideographic",
    "emoji",
    "emojimodifier",
    "emojipresentation",
    "math",
    "dash",
    "emojimodifierbase",
    "emojicomponent",
    "extendedpictographic",
    "hexdigit",
    "diacritic",
    "idstart",
    "idcontinue",
    "xidstart",
    "xidcontinue",
};

std::string_view members_of(std::span<const named_members> list, std::string_view name) noexcept {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.name == name; });
  return found == list.end() ? std::string_view() : found->members;
}

} // namespace

std::string_view posix_class_members(std::string_view name) noexcept {
  return members_of(posix_classes, name);
}

std::string property_members(std::string_view name) {
  std::string key;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    key += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (key.back() < 'a' || key.back() > 'z') return {};
  }
  for (const auto found : {members_of(posix_classes, key), members_of(general_categories, key)})
    if (!found.empty()) return std::string(found);
  const bool shared = key.size() <= 2 || std::find(std::begin(shared_names), std::end(shared_names), key) !=
                                             std::end(shared_names);
  return key.empty() ? std::string() : (shared ? R"(\p{)" : R"(\p{sc:)") + key + "}";
}

} // namespace paceline::tokenizer

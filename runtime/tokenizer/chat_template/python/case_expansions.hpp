#pragma once

#include <array>

namespace paceline::tokenizer::jinja {

/// A character whose upper case has more than one character, with its upper-case and its title-case form
/// (Unicode's SpecialCasing.txt, unconditional rows).
struct case_expansion {
  char32_t character;
  const char32_t* upper;
  const char32_t* title;
};

/// In ascending order of `character`. U+1F80 to U+1FAF are not listed: unicode.cpp computes their upper case
/// by a rule, and their title case has one character.
inline constexpr std::array<case_expansion, 54> case_expansions{{
    {0x00df, U"SS", U"Ss"},
    {0x0149, U"\u02bcN", U"\u02bcN"},
    {0x01f0, U"J\u030c", U"J\u030c"},
    {0x0390, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    {0x03b0, U"\u03a5\u0308\u0301", U"\u03a5\u0308\u0301"},
    {0x0587, U"\u0535\u0552", U"\u0535\u0582"},
    {0x1e96, U"H\u0331", U"H\u0331"},
    {0x1e97, U"T\u0308", U"T\u0308"},
    {0x1e98, U"W\u030a", U"W\u030a"},
    {0x1e99, U"Y\u030a", U"Y\u030a"},
    {0x1e9a, U"A\u02be", U"A\u02be"},
    {0x1f50, U"\u03a5\u0313", U"\u03a5\u0313"},
    {0x1f52, U"\u03a5\u0313\u0300", U"\u03a5\u0313\u0300"},
    {0x1f54, U"\u03a5\u0313\u0301", U"\u03a5\u0313\u0301"},
    {0x1f56, U"\u03a5\u0313\u0342", U"\u03a5\u0313\u0342"},
    {0x1fb2, U"\u1fba\u0399", U"\u1fba\u0345"},
    {0x1fb3, U"\u0391\u0399", U"\u1fbc"},
    {0x1fb4, U"\u0386\u0399", U"\u0386\u0345"},
    {0x1fb6, U"\u0391\u0342", U"\u0391\u0342"},
    {0x1fb7, U"\u0391\u0342\u0399", U"\u0391\u0342\u0345"},
    {0x1fbc, U"\u0391\u0399", U"\u1fbc"},
    {0x1fc2, U"\u1fca\u0399", U"\u1fca\u0345"},
    {0x1fc3, U"\u0397\u0399", U"\u1fcc"},
    {0x1fc4, U"\u0389\u0399", U"\u0389\u0345"},
    {0x1fc6, U"\u0397\u0342", U"\u0397\u0342"},
    {0x1fc7, U"\u0397\u0342\u0399", U"\u0397\u0342\u0345"},
    {0x1fcc, U"\u0397\u0399", U"\u1fcc"},
    {0x1fd2, U"\u0399\u0308\u0300", U"\u0399\u0308\u0300"},
    {0x1fd3, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    {0x1fd6, U"\u0399\u0342", U"\u0399\u0342"},
    {0x1fd7, U"\u0399\u0308\u0342", U"\u0399\u0308\u0342"},
    {0x1fe2, U"\u03a5\u0308\u0300", U"\u03a5\u0308\u0300"},
    {0x1fe3, U"\u03a5\u0308\u0301", U"\u03a5\u0308\u0301"},
    {0x1fe4, U"\u03a1\u0313", U"\u03a1\u0313"},
    {0x1fe6, U"\u03a5\u0342", U"\u03a5\u0342"},
    {0x1fe7, U"\u03a5\u0308\u0342", U"\u03a5\u0308\u0342"},
    {0x1ff2, U"\u1ffa\u0399", U"\u1ffa\u0345"},
    {0x1ff3, U"\u03a9\u0399", U"\u1ffc"},
    {0x1ff4, U"\u038f\u0399", U"\u038f\u0345"},
    {0x1ff6, U"\u03a9\u0342", U"\u03a9\u0342"},
    {0x1ff7, U"\u03a9\u0342\u0399", U"\u03a9\u0342\u0345"},
    {0x1ffc, U"\u03a9\u0399", U"\u1ffc"},
    {0xfb00, U"FF", U"Ff"},
    {0xfb01, U"FI", U"Fi"},
    {0xfb02, U"FL", U"Fl"},
    {0xfb03, U"FFI", U"Ffi"},
    {0xfb04, U"FFL", U"Ffl"},
    {0xfb05, U"ST", U"St"},
    {0xfb06, U"ST", U"St"},
    {0xfb13, U"\u0544\u0546", U"\u0544\u0576"},
    {0xfb14, U"\u0544\u0535", U"\u0544\u0565"},
    {0xfb15, U"\u0544\u053b", U"\u0544\u056b"},
    {0xfb16, U"\u054e\u0546", U"\u054e\u0576"},
    {0xfb17, U"\u0544\u053d", U"\u0544\u056d"},
}};

} // namespace paceline::tokenizer::jinja

#include "runtime/tokenizer/normalizer.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/text/characters.hpp"
#include "runtime/tokenizer/text/normalization_age.hpp"
#include "runtime/tokenizer/text/replace.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <utility>

namespace paceline::tokenizer {

namespace {

bool is_ascii(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

template <class Rewrite>
std::string rewrite_characters(std::string_view text, Rewrite&& rewrite) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const utf8_unit unit = read_utf8(text, at);
    rewrite(unit.code_point, text.substr(at, unit.num_bytes), out);
    at += unit.num_bytes;
  }
  return out;
}

/// Decomposed code points in canonical order. The library's own ordering takes quadratic time on a long run
/// of marks.
std::vector<utf8proc_int32_t> decompose(std::string_view text, utf8proc_option_t options) {
  constexpr std::size_t max_expansion = 32; // Unicode's longest is 18 (U+FDFA)
  std::vector<utf8proc_int32_t> out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const utf8_unit unit = read_utf8(text, at);
    at += unit.num_bytes;
    std::array<utf8proc_int32_t, max_expansion> parts{};
    int boundary_class = 0;
    const auto num_parts = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(unit.code_point),
                                                   parts.data(), parts.size(), options, &boundary_class);
    PACELINE_CHECK(num_parts >= 0 && num_parts <= static_cast<utf8proc_ssize_t>(parts.size()),
                   "decomposition too long");
    out.insert(out.end(), parts.begin(), parts.begin() + num_parts);
  }
  const auto mark_class = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (auto begin = out.begin(); begin != out.end();) {
    if (mark_class(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, out.end(), [&](auto c) { return mark_class(c) == 0; });
    std::stable_sort(begin, end, [&](auto a, auto b) { return mark_class(a) < mark_class(b); });
    begin = end;
  }
  return out;
}

/// Appends the form of `text`, which has no character that is newer than the normalizers.
void append_form(std::string& out, std::string_view text, unicode_form form) {
  const bool compose = form == unicode_form::nfc || form == unicode_form::nfkc;
  const bool compatible = form == unicode_form::nfkc || form == unicode_form::nfkd;
  int options = UTF8PROC_STABLE | (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
  if (compatible) options |= UTF8PROC_COMPAT;
  auto code_points = decompose(text, static_cast<utf8proc_option_t>(options));
  if (compose) {
    const auto length =
        utf8proc_normalize_utf32(code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()),
                                 static_cast<utf8proc_option_t>(options));
    PACELINE_CHECK(length >= 0, utf8proc_errmsg(length));
    code_points.resize(static_cast<std::size_t>(length));
  }
  for (const auto c : code_points) append_utf8(out, static_cast<char32_t>(c));
}

std::string to_form(std::string_view text, unicode_form form) {
  std::string out;
  out.reserve(text.size());
  std::size_t begin = 0; // of the run of known characters
  for (std::size_t at = 0; at < text.size();) {
    const utf8_unit unit = read_utf8(text, at);
    const std::size_t end = at + unit.num_bytes;
    if (is_younger_than_normalizers(unit.code_point)) {
      append_form(out, text.substr(begin, at - begin), form);
      out += text.substr(at, unit.num_bytes);
      begin = end;
    }
    at = end;
  }
  append_form(out, text.substr(begin), form);
  return out;
}

struct normalising_runner {
  std::string& text;
  regex::scratch& work;

  expected<void> operator()(unicode_form form) const {
    if (!is_ascii(text)) text = to_form(text, form);
    return {};
  }

  expected<void> operator()(lowercase_step) const {
    text = rewrite_characters(text, [](char32_t c, std::string_view, std::string& out) {
      append_utf8(
          out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c == 0x130 ? 'I' : c))));
      if (c == 0x130) append_utf8(out, 0x307); // the one character whose small form is two
    });
    return {};
  }

  expected<void> operator()(strip_step step) const {
    std::size_t begin = 0;
    std::size_t end = text.size();
    while (step.left && begin < end) {
      const utf8_unit unit = read_utf8(text, begin);
      if (!is_space(unit.code_point)) break;
      begin += unit.num_bytes;
    }
    while (step.right && begin < end) {
      std::size_t last = end - 1;
      while (last > begin && is_utf8_continuation(text[last])) --last;
      if (!is_space(read_utf8(text, last).code_point)) break;
      end = last;
    }
    text = text.substr(begin, end - begin);
    return {};
  }

  expected<void> operator()(strip_accents_step) const {
    text = rewrite_characters(text, [](char32_t c, std::string_view spelling, std::string& out) {
      if (!is_mark_of_normalizers(c)) out += spelling;
    });
    return {};
  }

  expected<void> operator()(const prepend_step& step) const {
    if (!text.empty()) text.insert(0, step.prefix);
    return {};
  }

  expected<void> operator()(const replace_step& step) const {
    if (text.empty()) return {}; // nothing is replaced in an empty text
    std::string out;
    out.reserve(text.size());
    if (const auto* literal = std::get_if<std::string>(&step.from)) {
      append_replaced(out, text, *literal, step.to);
    } else {
      const auto matches = std::get<regex>(step.from).find_all(text, work);
      if (!matches) return matches.error();
      std::size_t end = 0;
      for (const text_range match : *matches) {
        out.append(text, end, match.begin - end).append(step.to);
        end = match.end;
      }
      out.append(text, end);
    }
    text = std::move(out);
    return {};
  }
};

} // namespace

expected<std::string> normalizer::apply(std::string text, regex::scratch& work) const {
  for (const auto& step : steps_)
    if (auto done = std::visit(normalising_runner{text, work}, step); !done) return std::move(done).error();
  return text;
}

} // namespace paceline::tokenizer

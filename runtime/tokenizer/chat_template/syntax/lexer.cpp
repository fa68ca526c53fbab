#include "runtime/tokenizer/chat_template/syntax/lexer.hpp"

#include "runtime/tokenizer/chat_template/python/failure.hpp"
#include "runtime/tokenizer/chat_template/python/unicode.hpp"
#include "runtime/tokenizer/chat_template/syntax/literals.hpp"

#include <algorithm>

namespace paceline::tokenizer::jinja {

namespace {

constexpr std::size_t npos = std::string_view::npos;

/// Normalises line breaks, and removes one at the very end unless it is to be kept.
std::string normalized_newlines(std::string_view source, bool keep_trailing_newline) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r') {
      text += source[at];
      continue;
    }
    text += '\n';
    if (at + 1 < source.size() && source[at + 1] == '\n') ++at;
  }
  if (!keep_trailing_newline && text.ends_with('\n')) text.pop_back();
  return text;
}

class lexer {
 public:
  lexer(std::string_view source, const template_options& options)
      : source_(normalized_newlines(source, options.keep_trailing_newline)), text_(source_),
        options_(options) {}

  std::vector<token> run() {
    while (at_ < text_.size()) read_data();
    add(token_kind::end);
    return std::move(tokens_);
  }

 private:
  bool starts(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  token& add(token_kind kind, std::string text = {}) {
    tokens_.push_back(token{kind, line_, std::move(text), 0, 0});
    return tokens_.back();
  }

  /// Advances to `to` and counts lines.
  void advance(std::size_t to) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
    line_starting_ = at_ > 0 && text_[at_ - 1] == '\n';
  }

  std::size_t skip_blanks(std::size_t from) const {
    return text_.size() - without_leading_blanks(text_.substr(from)).size();
  }

  /// The text before a tag, after applying the sign in the tag's opening and lstrip_blocks.
  std::string_view trimmed_data(std::string_view data, char sign, bool is_variable) const {
    if (sign == '-') return without_trailing_blanks(data);
    if (sign == '+' || !options_.lstrip_blocks || is_variable) return data;
    const std::size_t newline = data.rfind('\n');
    const std::size_t line_begin = newline == npos ? 0 : newline + 1;
    if (line_begin == 0 && !line_starting_) return data;
    const bool blank = without_trailing_blanks(data.substr(line_begin)).empty();
    return blank ? data.substr(0, line_begin) : data;
  }

  static char sign_at(std::string_view text, std::size_t at) {
    return at < text.size() && (text[at] == '-' || text[at] == '+') ? text[at] : '\0';
  }

  /// Reads text up to the next tag, then the tag.
  void read_data() {
    std::size_t tag = at_;
    for (;; ++tag) {
      tag = text_.find('{', tag);
      if (tag == npos || tag + 1 >= text_.size()) break;
      if (text_[tag + 1] == '{' || text_[tag + 1] == '%' || text_[tag + 1] == '#') break;
    }
    if (tag == npos || tag + 1 >= text_.size()) {
      add(token_kind::data, std::string(text_.substr(at_)));
      advance(text_.size());
      return;
    }
    const char sign = sign_at(text_, tag + 2);
    const char kind = text_[tag + 1];
    const std::string_view data = trimmed_data(text_.substr(at_, tag - at_), sign, kind == '{');
    if (!data.empty()) add(token_kind::data, std::string(data));
    advance(tag);
    if (kind == '%' && read_raw()) return;
    const int line = line_;
    advance(tag + 2 + (sign != 0 ? 1 : 0));
    if (kind == '#')
      read_comment();
    else
      read_tag(kind == '{', line);
  }

  void read_comment() {
    if (at_ >= text_.size()) return; // jinja2 accepts a comment that opens at the very end
    const std::size_t close = text_.find("#}", at_);
    if (close == npos) fail_at(line_, "missing end of comment tag");
    finish_block_tag(close, close > at_ ? text_[close - 1] : '\0');
  }

  /// Skips "%}" or "#}" at `close`, and the text that its sign or trim_blocks removes.
  void finish_block_tag(std::size_t close, char sign) {
    std::size_t after = close + 2;
    if (sign == '-')
      after = skip_blanks(after);
    else if (sign != '+' && options_.trim_blocks && after < text_.size() && text_[after] == '\n')
      ++after;
    advance(after);
  }

  /// At "{%": reads a whole raw block if it is one.
  bool read_raw() {
    std::size_t at = skip_blanks(at_ + 2 + (sign_at(text_, at_ + 2) != 0 ? 1 : 0));
    if (!text_.substr(at).starts_with("raw")) return false;
    at = skip_blanks(at + 3);
    if (text_.substr(at).starts_with("-%}"))
      at = skip_blanks(at + 3);
    else if (text_.substr(at).starts_with("%}"))
      at += 2;
    else
      return false;
    advance(at);
    const std::size_t begin = at_;
    for (std::size_t tag = text_.find("{%", at_); tag != npos; tag = text_.find("{%", tag + 1)) {
      const char sign = sign_at(text_, tag + 2);
      std::size_t end = skip_blanks(tag + 2 + (sign != 0 ? 1 : 0));
      if (!text_.substr(end).starts_with("endraw")) continue;
      end = skip_blanks(end + 6);
      const char closing = sign_at(text_, end);
      if (!text_.substr(end + (closing != 0 ? 1 : 0)).starts_with("%}")) continue;
      const std::string_view data = trimmed_data(text_.substr(begin, tag - begin), sign, false);
      if (!data.empty()) add(token_kind::data, std::string(data));
      finish_block_tag(end + (closing != 0 ? 1 : 0), closing);
      return true;
    }
    if (begin < text_.size()) fail_at(line_, "missing end of raw directive");
    return true;
  }

  /// After "{{" or "{%": reads up to the end of the tag.
  void read_tag(bool is_variable, int line) {
    add(is_variable ? token_kind::variable_begin : token_kind::block_begin).line = line;
    std::string brackets;
    while (at_ < text_.size()) {
      if (brackets.empty() && close_tag(is_variable)) return;
      const std::size_t blanks = skip_blanks(at_);
      if (blanks > at_)
        advance(blanks);
      else
        read_token(brackets);
    }
  }

  bool close_tag(bool is_variable) {
    const char sign = sign_at(text_, at_);
    const std::size_t close = at_ + (sign != 0 ? 1 : 0);
    if (!text_.substr(close).starts_with(is_variable ? "}}" : "%}") || (is_variable && sign == '+'))
      return false;
    add(is_variable ? token_kind::variable_end : token_kind::block_end);
    if (!is_variable)
      finish_block_tag(close, sign);
    else
      advance(sign == '-' ? skip_blanks(close + 2) : close + 2);
    return true;
  }

  void read_token(std::string& brackets) {
    const char c = text_[at_];
    if (c >= '0' && c <= '9')
      read_number();
    else if (is_name_character(at_))
      read_name();
    else if (c == '\'' || c == '"')
      read_string(c);
    else
      read_operator(brackets);
  }

  bool is_name_character(std::size_t at) const {
    const char32_t c = character_at(text_, at).code;
    return c < 0x80 ? c == '_' || is_alphabetic(c) || is_decimal(c) : is_identifier_part(c) || is_numeric(c);
  }

  void read_number() {
    // After a point, as in a.1.2, digits are an index, not a fraction.
    const bool may_be_real = at_ == 0 || text_[at_ - 1] != '.';
    const std::size_t real_end = may_be_real ? end_of_real(text_, at_) : at_;
    if (real_end > at_) {
      add(token_kind::real).real = parse_real(text_.substr(at_, real_end - at_));
      advance(real_end);
      return;
    }
    const std::size_t end = end_of_integer(text_, at_);
    const auto number = parse_integer(text_.substr(at_, end - at_));
    if (!number) fail_at(line_, "integer " + std::string(text_.substr(at_, end - at_)) + " is too large");
    add(token_kind::integer).integer = *number;
    advance(end);
  }

  void read_name() {
    std::size_t end = at_;
    while (end < text_.size() && is_name_character(end)) end += character_at(text_, end).size;
    const std::string_view name = text_.substr(at_, end - at_);
    bool good = true;
    for_each_character(name, [&](character c, std::size_t at) {
      good = good && (at == 0 ? is_identifier_start(c.code) : is_identifier_part(c.code));
    });
    if (!good) fail_at(line_, "invalid character in identifier '" + std::string(name) + "'");
    add(token_kind::name, std::string(name));
    advance(end);
  }

  void read_string(char quote) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size())
      fail_at(line_, std::string("unexpected char '") + quote + "': the string does not end");
    auto text = unescaped(text_.substr(at_ + 1, end - at_ - 1));
    if (!text) fail_at(line_, std::move(text).error().message());
    add(token_kind::string, std::move(*text));
    advance(end + 1);
  }

  void read_operator(std::string& brackets) {
    static constexpr std::string_view pairs[] = {"//", "**", "==", "!=", ">=", "<="};
    std::size_t size =
        std::any_of(std::begin(pairs), std::end(pairs), [&](auto pair) { return starts(pair); }) ? 2 : 1;
    const char c = text_[at_];
    if (size == 1 && std::string_view("+-/*%~[](){}><=.:|,;").find(c) == npos)
      fail_at(line_,
              "unexpected character '" + std::string(text_.substr(at_, character_at(text_, at_).size)) + "'");
    if (c == '(') brackets += ')';
    if (c == '[') brackets += ']';
    if (c == '{') brackets += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty()) fail_at(line_, std::string("unexpected '") + c + "'");
      if (brackets.back() != c)
        fail_at(line_, std::string("unexpected '") + c + "', expected '" + brackets.back() + "'");
      brackets.pop_back();
    }
    add(token_kind::op, std::string(text_.substr(at_, size)));
    advance(at_ + size);
  }

  std::string source_;
  std::string_view text_;
  const template_options& options_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<token> tokens_;
};

} // namespace

std::vector<token> tokenize(std::string_view source, const template_options& options) {
  return lexer(source, options).run();
}

std::string describe(const token& t) {
  switch (t.kind) {
  case token_kind::data:
    return "template data / text";
  case token_kind::variable_begin:
    return "begin of print statement";
  case token_kind::variable_end:
    return "end of print statement";
  case token_kind::block_begin:
    return "begin of statement block";
  case token_kind::block_end:
    return "end of statement block";
  case token_kind::name:
  case token_kind::op:
    return t.text;
  case token_kind::string:
    return "string";
  case token_kind::integer:
    return "integer";
  case token_kind::real:
    return "float";
  case token_kind::end:
    break;
  }
  return "end of template";
}

} // namespace paceline::tokenizer::jinja

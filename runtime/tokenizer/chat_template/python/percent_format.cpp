#include "runtime/base/utf8.hpp"
#include "runtime/tokenizer/chat_template/python/format.hpp"
#include "runtime/tokenizer/chat_template/python/markup.hpp"
#include "runtime/tokenizer/chat_template/python/operators.hpp"
#include "runtime/tokenizer/chat_template/python/printing.hpp"
#include "runtime/tokenizer/chat_template/python/unicode.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::tokenizer::jinja {

namespace {

/// %[(key)][flags][width][.precision]type
struct conversion {
  std::string_view key;
  bool has_key = false;
  bool left = false, plus = false, space = false, alternate = false, zero = false;
  wide_int width = 0;
  wide_int precision = -1; ///< -1: none
  char type = 0;
};

class percent_formatter {
 public:
  percent_formatter(runtime& rt, const value& format, const value& operand)
      : rt_(rt), text_(format.text()), markup_(format.markup()), operand_(operand) {
    if (operand.is(value_type::tuple)) arguments_ = &operand.as<list_object>().items;
  }

  std::string run() {
    while (at_ < text_.size()) {
      const std::size_t percent = std::min(text_.find('%', at_), text_.size());
      out_ += text_.substr(at_, percent - at_);
      at_ = percent;
      if (at_ < text_.size()) {
        rt_.memory.step();
        ++at_;
        convert(parse());
        rt_.memory.require(out_.size());
      }
    }
    if (!all_used()) fail("not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  bool all_used() const {
    if (arguments_ != nullptr) return next_ >= arguments_->size();
    const bool mapping = operand_.is(value_type::dict) || operand_.is(value_type::list) ||
                         operand_.is_undefined() || operand_.is(value_type::range);
    return mapping || next_ > 0;
  }

  char peek() const {
    if (at_ >= text_.size()) fail("incomplete format");
    return text_[at_];
  }

  conversion parse() {
    conversion c;
    if (peek() == '(') parse_key(c);
    for (;; ++at_) {
      const char flag = peek();
      if (flag == '-')
        c.left = true;
      else if (flag == '+')
        c.plus = true;
      else if (flag == ' ')
        c.space = true;
      else if (flag == '#')
        c.alternate = true;
      else if (flag == '0')
        c.zero = true;
      else
        break;
    }
    c.width = parse_count();
    if (c.width < 0) {
      c.left = true;
      c.width = -c.width;
    }
    if (peek() == '.') {
      ++at_;
      c.precision = std::max<wide_int>(parse_count(), 0);
    }
    if (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
    c.type = peek();
    ++at_;
    if (c.width > (1 << 30) || c.precision > (1 << 30)) fail("width or precision is too big");
    rt_.memory.require(static_cast<std::size_t>(c.width));
    return c;
  }

  void parse_key(conversion& c) {
    const std::size_t start = ++at_;
    for (int depth = 1; depth > 0; ++at_) {
      if (at_ >= text_.size()) fail("incomplete format key");
      depth += text_[at_] == '(' ? 1 : text_[at_] == ')' ? -1 : 0;
    }
    c.key = text_.substr(start, at_ - start - 1);
    c.has_key = true;
  }

  wide_int parse_count() {
    if (peek() == '*') {
      ++at_;
      return require_integer(rt_, next_argument(), "* of a format");
    }
    wide_int number = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      if (number > (1 << 30)) fail("width or precision is too big");
      number = number * 10 + (text_[at_] - '0');
    }
    return number;
  }

  value next_argument() {
    if (arguments_ != nullptr) {
      if (next_ >= arguments_->size()) fail("not enough arguments for format string");
      return (*arguments_)[next_++];
    }
    if (next_++ > 0) fail("not enough arguments for format string");
    return operand_;
  }

  value keyed_argument(std::string_view key) {
    require_defined(rt_, operand_);
    if (!operand_.is(value_type::dict)) fail("format requires a mapping");
    const value* found = operand_.as<dict_object>().find(rt_, key);
    if (found == nullptr) fail("format key '" + std::string(key) + "' is not in the mapping");
    return *found;
  }

  void convert(const conversion& c) {
    if (c.type == '%') {
      out_ += '%';
      return;
    }
    const value v = c.has_key ? keyed_argument(c.key) : next_argument();
    switch (c.type) {
    case 's':
    case 'r':
    case 'a':
      append_text(c, v);
      return;
    case 'c':
      append_character(c, v);
      return;
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      append_integer(c, v);
      return;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      append_real(c, v);
      return;
    default:
      fail(std::string("unsupported format character '") + c.type + "'");
    }
  }

  void append_text(const conversion& c, const value& v) {
    value text = c.type == 's' ? v : rt_.memory.keep(repr(rt_, v));
    std::string shown = markup_ ? escaped(rt_, text) : str(rt_, text);
    if (c.precision >= 0) shown.resize(byte_offset(shown, static_cast<std::size_t>(c.precision)));
    append_padded(c, shown);
  }

  void append_character(const conversion& c, const value& v) {
    std::string shown;
    if (v.is_string() && num_characters(v.text()) == 1)
      shown = v.text();
    else if (v.is_integral() && v.integer() >= 0 && v.integer() <= 0x10ffff)
      append_utf8(shown, static_cast<char32_t>(v.integer()));
    else
      fail("%c requires int or char");
    append_padded(c, shown);
  }

  void append_integer(const conversion& c, const value& v) {
    const bool decimal = c.type == 'd' || c.type == 'i' || c.type == 'u';
    require_defined(rt_, v);
    wide_int number = 0;
    if (v.is_integral()) {
      number = v.integer();
    } else if (v.is(value_type::real) && decimal) {
      if (!(std::fabs(v.real()) < 1e38)) fail("cannot convert float to integer");
      number = static_cast<wide_int>(v.real());
    } else {
      fail(std::string("%") + c.type + " format: " + (decimal ? "a real number" : "an integer") +
           " is required, not " + std::string(type_name(v)));
    }
    const std::string specification = decimal ? "d" : std::string(1, c.type);
    std::string digits = format_value(rt_, value::of_integer(number), specification);
    const bool negative = digits[0] == '-';
    if (negative) digits.erase(0, 1);
    if (c.precision > static_cast<wide_int>(digits.size())) {
      rt_.memory.require(static_cast<std::size_t>(c.precision));
      digits.insert(0, static_cast<std::size_t>(c.precision) - digits.size(), '0');
    }
    if (c.alternate && !decimal) digits.insert(0, std::string("0") + c.type);
    append_number(c, negative, digits, c.alternate && !decimal ? 2 : 0);
  }

  void append_real(const conversion& c, const value& v) {
    require_defined(rt_, v);
    if (!v.is_number()) fail("must be real number, not " + std::string(type_name(v)));
    std::string specification = c.alternate ? "#" : "";
    if (c.precision >= 0) specification += "." + integer_text(c.precision);
    std::string digits = format_value(rt_, v, specification + c.type);
    const bool negative = digits[0] == '-';
    if (negative) digits.erase(0, 1);
    append_number(c, negative, digits, 0);
  }

  void append_number(const conversion& c, bool negative, const std::string& digits, std::size_t num_prefix) {
    const std::string sign = negative ? "-" : c.plus ? "+" : c.space ? " " : "";
    const auto width = static_cast<std::size_t>(c.width);
    const std::size_t used = sign.size() + digits.size();
    if (!c.zero || c.left || used >= width) {
      append_padded(c, sign + digits);
      return;
    }
    out_ += sign + digits.substr(0, num_prefix) + std::string(width - used, '0') + digits.substr(num_prefix);
  }

  void append_padded(const conversion& c, std::string_view shown) {
    const std::size_t length = num_characters(shown);
    const auto width = static_cast<std::size_t>(c.width);
    const std::string filler(width > length ? width - length : 0, ' ');
    if (!c.left) out_ += filler;
    out_ += shown;
    if (c.left) out_ += filler;
  }

  runtime& rt_;
  std::string_view text_;
  bool markup_;
  const value& operand_;
  const std::vector<value>* arguments_ = nullptr;
  std::size_t next_ = 0, at_ = 0;
  std::string out_;
};

} // namespace

value percent_format(runtime& rt, const value& format, const value& operand) {
  rt.memory.scan(format.text().size());
  return rt.memory.keep(percent_formatter(rt, format, operand).run(), format.markup());
}

} // namespace paceline::tokenizer::jinja

#include "runtime/tokenizer/chat_template/python/json_text.hpp"

#include "runtime/tokenizer/chat_template/python/operators.hpp"
#include "runtime/tokenizer/chat_template/python/printing.hpp"
#include "runtime/tokenizer/chat_template/python/unicode.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::tokenizer::jinja {

namespace {

class json_writer {
 public:
  json_writer(runtime& rt, const json_style& style) : rt_(rt), style_(style) {}

  std::string take() && { return std::move(out_); }

  void write(const value& v) {
    rt_.memory.step();
    rt_.memory.require(out_.size());
    switch (v.type()) {
    case value_type::none:
      out_ += "null";
      return;
    case value_type::boolean:
      out_ += v.boolean() ? "true" : "false";
      return;
    case value_type::integer:
      out_ += integer_text(v.integer());
      return;
    case value_type::real:
      out_ += json_real(v.real());
      return;
    case value_type::string:
      write_text(v.text());
      return;
    case value_type::list:
    case value_type::tuple:
      write_items(v.as<list_object>().items);
      return;
    case value_type::dict:
      write_entries(v.as<dict_object>());
      return;
    default:
      fail("Object of type " + std::string(type_name(v)) + " is not JSON serializable");
    }
  }

 private:
  static std::string json_real(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return real_text(number);
  }

  void write_items(const std::vector<value>& items) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    const nesting_guard guard(rt_);
    open('[');
    bool first = true;
    for (const value& item : items) {
      separate(first);
      write(item);
    }
    close(']');
  }

  void write_entries(const dict_object& dict) {
    if (dict.size() == 0) {
      out_ += "{}";
      return;
    }
    const nesting_guard guard(rt_);
    open('{');
    bool first = true;
    auto entries = dict.entries();
    if (style_.sort_keys)
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const auto& a, const auto& b) { return less(rt_, a.first, b.first); });
    for (const auto& [key, item] : entries) {
      separate(first);
      write_key(key);
      out_ += style_.key_separator;
      write(item);
    }
    close('}');
  }

  void write_key(const value& key) {
    switch (key.type()) {
    case value_type::string:
      write_text(key.text());
      return;
    case value_type::none:
      write_text("null");
      return;
    case value_type::boolean:
      write_text(key.boolean() ? "true" : "false");
      return;
    case value_type::integer:
      write_text(integer_text(key.integer()));
      return;
    case value_type::real:
      write_text(json_real(key.real()));
      return;
    default:
      fail("keys must be str, int, float, bool or None, not " + std::string(type_name(key)));
    }
  }

  void open(char bracket) {
    out_ += bracket;
    ++level_;
    break_line();
  }

  void close(char bracket) {
    --level_;
    break_line();
    out_ += bracket;
  }

  void separate(bool& first) {
    if (!first) {
      out_ += style_.item_separator;
      break_line();
    }
    first = false;
  }

  void break_line() {
    if (!style_.indent) return;
    rt_.memory.require(out_.size() + level_ * style_.indent->size());
    out_ += '\n';
    for (std::size_t i = 0; i < level_; ++i) out_ += *style_.indent;
  }

  void write_text(std::string_view text) {
    rt_.memory.scan(text.size());
    rt_.memory.require(out_.size() + text.size());
    out_ += '"';
    for_each_character(text, [&](character c, std::size_t at) {
      if (c.code >= 0x20 && c.code != '"' && c.code != '\\' && (c.code < 0x7f || !style_.ensure_ascii))
        out_ += text.substr(at, c.size);
      else
        write_escape(c.code);
    });
    out_ += '"';
  }

  void write_escape(char32_t c) {
    switch (c) {
    case '"':
      out_ += "\\\"";
      return;
    case '\\':
      out_ += "\\\\";
      return;
    case '\n':
      out_ += "\\n";
      return;
    case '\r':
      out_ += "\\r";
      return;
    case '\t':
      out_ += "\\t";
      return;
    case '\f':
      out_ += "\\f";
      return;
    case '\b':
      out_ += "\\b";
      return;
    default:
      break;
    }
    if (c > 0xffff) { // written as a pair of surrogates
      write_unit(static_cast<char32_t>(0xd800 + ((c - 0x10000) >> 10)));
      write_unit(static_cast<char32_t>(0xdc00 + ((c - 0x10000) & 0x3ff)));
    } else {
      write_unit(c);
    }
  }

  void write_unit(char32_t unit) {
    constexpr char digits[] = "0123456789abcdef";
    out_ += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out_ += digits[(unit >> shift) & 0xf];
  }

  runtime& rt_;
  const json_style& style_;
  std::string out_;
  std::size_t level_ = 0;
};

} // namespace

std::string json_text(runtime& rt, const value& v, const json_style& style) {
  json_writer writer(rt, style);
  writer.write(v);
  return std::move(writer).take();
}

} // namespace paceline::tokenizer::jinja

#include "runtime/tokenizer/chat_template/python/markup.hpp"

#include "runtime/tokenizer/chat_template/python/printing.hpp"

namespace paceline::tokenizer::jinja {

std::string escaped(runtime& rt, const value& v) {
  const std::string_view text = str_view(rt, v);
  rt.memory.scan(text.size());
  if (v.is_string() && v.markup()) return std::string(text);
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '\'':
      out += "&#39;";
      break;
    case '"':
      out += "&#34;";
      break;
    default:
      out += c;
    }
  }
  rt.memory.require(out.size());
  return out;
}

} // namespace paceline::tokenizer::jinja

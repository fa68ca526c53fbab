#pragma once

#include "runtime/tokenizer/chat_template/options.hpp"
#include "runtime/tokenizer/chat_template/python/value.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace paceline::tokenizer::jinja {

enum class token_kind : std::uint8_t {
  data, ///< text outside of tags
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  op, ///< `text` is the operator
  end,
};

struct token {
  token_kind kind = token_kind::end;
  int line = 1;
  std::string text; ///< of data, a name, an operator, or a string (with its escapes resolved)
  wide_int integer = 0;
  double real = 0;

  bool is_op(std::string_view symbol) const { return kind == token_kind::op && text == symbol; }
  bool is_name(std::string_view word) const { return kind == token_kind::name && text == word; }
};

/// Splits a template into tokens like jinja2's lexer. Comments are left out, and whitespace control has been
/// applied. The last token is `end`. Throws `failure` with the line of invalid text.
std::vector<token> tokenize(std::string_view source, const template_options& options);

/// The name of a token in error messages.
std::string describe(const token& t);

} // namespace paceline::tokenizer::jinja

#pragma once

#include "runtime/tokenizer/chat_template/syntax/ast.hpp"
#include "runtime/tokenizer/chat_template/syntax/lexer.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::tokenizer::jinja {

/// A recursive descent parser for the expressions of a template. Nesting is limited, so that no template can
/// overflow the stack in the parser or in later walks over the tree.
class expression_parser {
 public:
  /// Largest number of nested brackets and blocks in the source (`max_depth`), and of nested nodes in an
  /// expression (`max_height`).
  static constexpr int max_depth = 100;
  static constexpr int max_height = 200;

  explicit expression_parser(std::vector<token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  const token& current() const { return tokens_[at_]; }
  const token& peek() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const token& next();
  bool skip_op(std::string_view symbol);
  bool skip_name(std::string_view word);
  void expect_op(std::string_view symbol);
  void expect_kind(token_kind kind, std::string_view what);
  std::string expect_name();
  [[noreturn]] void fail_here(std::string message) const;
  [[noreturn]] void fail_expected(std::string_view what) const;

  enum class conditionals : bool { not_allowed, allowed };
  expression_ptr parse_expression(conditionals allowed = conditionals::allowed);
  /// Parses one expression, or a tuple if commas follow. `end_word` is a name that ends a tuple.
  expression_ptr parse_tuple(conditionals allowed = conditionals::allowed, std::string_view end_word = {},
                             bool in_parentheses = false);
  expression_ptr parse_primary();
  /// Parses filters that follow `operand`, each after a "|"; with `start_inline` the first one has no "|".
  /// Null if there are no filters and no operand.
  expression_ptr parse_filters(expression_ptr operand, bool start_inline = false);

  /// Counts one level during its lifetime.
  class level {
   public:
    explicit level(expression_parser& parser);
    level(const level&) = delete;
    level& operator=(const level&) = delete;
    ~level() { --parser_.depth_; }

   private:
    expression_parser& parser_;
  };

 private:
  bool at_tuple_end(std::string_view end_word) const;
  expression_ptr parse_conditional();
  expression_ptr parse_or();
  expression_ptr parse_and();
  expression_ptr parse_not();
  expression_ptr parse_comparison();
  expression_ptr parse_sum();
  expression_ptr parse_concatenation();
  expression_ptr parse_product();
  expression_ptr parse_power();
  expression_ptr parse_factor();
  expression_ptr parse_unary(bool with_filters);
  expression_ptr parse_string();
  expression_ptr parse_list();
  expression_ptr parse_dict();
  expression_ptr parse_postfix(expression_ptr operand);
  expression_ptr parse_filters_and_tests(expression_ptr operand);
  expression_ptr parse_subscript(expression_ptr object);
  expression_ptr parse_subscribed(expression_ptr& object, int line);
  expression_ptr parse_call(expression_ptr callee);
  expression_ptr parse_test(expression_ptr operand);
  argument_list parse_arguments();
  std::string parse_dotted_name();

  template <class Operator>
  expression_ptr parse_binary(expression_ptr (expression_parser::*operand)(), Operator operator_of);

  std::vector<token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

} // namespace paceline::tokenizer::jinja

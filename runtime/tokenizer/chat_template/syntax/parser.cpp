#include "runtime/tokenizer/chat_template/syntax/parser.hpp"

#include "runtime/tokenizer/chat_template/syntax/expression_parser.hpp"
#include "runtime/tokenizer/chat_template/syntax/name_resolution.hpp"

#include <algorithm>
#include <initializer_list>

namespace paceline::tokenizer::jinja {

namespace {

using words = std::initializer_list<std::string_view>;

/// Tags of jinja2 that load other templates or change the escaping of output. A chat template is a single
/// file.
bool is_refused_tag(std::string_view tag) {
  static constexpr std::string_view refused[] = {"include", "import", "from", "extends", "autoescape"};
  return std::find(std::begin(refused), std::end(refused), tag) != std::end(refused);
}

bool is_constant_name(std::string_view name) {
  static constexpr std::string_view constants[] = {"true", "false", "none", "True", "False", "None"};
  return std::find(std::begin(constants), std::end(constants), name) != std::end(constants);
}

class statement_parser : public expression_parser {
 public:
  statement_parser(std::vector<token> tokens, const template_options& options)
      : expression_parser(std::move(tokens)), options_(options) {}

  template_tree run() {
    template_tree tree;
    tree.body = parse_block({});
    tree.blocks = std::move(blocks_);
    return tree;
  }

 private:
  /// Statements and text up to a tag named in `ends`; the parser is then at that name.
  block parse_block(words ends) {
    block body;
    output_statement output;
    int output_line = 0;
    const auto add_output = [&](output_part part, int line) {
      if (output.parts.empty()) output_line = line;
      output.parts.push_back(std::move(part));
    };
    const auto flush = [&] {
      if (!output.parts.empty()) add(body, output_line, std::move(output));
      output = {};
    };
    for (;;) {
      const int line = current().line;
      switch (current().kind) {
      case token_kind::data:
        add_output({next().text, nullptr}, line);
        break;
      case token_kind::variable_begin:
        next();
        add_output({{}, parse_tuple()}, line);
        expect_kind(token_kind::variable_end, "end of print statement");
        break;
      case token_kind::block_begin:
        flush();
        next();
        if (std::any_of(ends.begin(), ends.end(), [&](auto end) { return current().is_name(end); }))
          return body;
        parse_statement(body);
        expect_kind(token_kind::block_end, "end of statement block");
        break;
      default:
        if (ends.size() != 0)
          fail_here("unexpected end of template, expected '" + std::string(*(ends.end() - 1)) + "'");
        flush();
        return body;
      }
    }
  }

  /// The body after a tag's own words, up to one of `ends`.
  block parse_body(words ends) {
    const level nested(*this);
    (void)skip_op(":");
    expect_kind(token_kind::block_end, "end of statement block");
    return parse_block(ends);
  }

  /// A body that only `end` closes; skips that name.
  block parse_whole_body(std::string_view end) {
    block body = parse_body({end});
    next();
    return body;
  }

  template <class Node>
  Node& add(block& body, int line, Node node) {
    auto made = std::make_unique<statement>();
    made->line = line;
    made->node = std::move(node);
    body.push_back(std::move(made));
    return std::get<Node>(body.back()->node);
  }

  void parse_statement(block& body) {
    if (current().kind != token_kind::name) fail_here("tag name expected");
    const token& tag = next();
    const int line = tag.line;
    if (tag.text == "if")
      add(body, line, parse_if());
    else if (tag.text == "for")
      add(body, line, parse_for());
    else if (tag.text == "set")
      parse_set(body, line);
    else if (tag.text == "macro")
      add(body, line, parse_macro(line));
    else if (tag.text == "call")
      add(body, line, parse_call_block(line));
    else if (tag.text == "filter")
      add(body, line, parse_filter_block());
    else if (tag.text == "with")
      add(body, line, parse_with());
    else if (tag.text == "print")
      add(body, line, parse_print());
    else if (tag.text == "block")
      parse_named_block(body, line);
    else if (tag.text == "generation" && options_.generation_blocks)
      add(body, line, parse_generation());
    else if (tag.text == "break" && options_.loop_controls)
      add(body, line, break_statement{});
    else if (tag.text == "continue" && options_.loop_controls)
      add(body, line, continue_statement{});
    else if (is_refused_tag(tag.text))
      throw failure{errc::unsupported, "the tag '" + tag.text + "' is not offered in chat templates", line};
    else
      fail_at(line, "encountered unknown tag '" + tag.text + "'");
  }

  if_statement parse_if() {
    if_statement node;
    for (;;) {
      expression_ptr test = parse_tuple(conditionals::not_allowed);
      block body = parse_body({"elif", "else", "endif"});
      node.branches.emplace_back(std::move(test), std::move(body));
      const std::string end = next().text;
      if (end == "elif") continue;
      if (end == "else") node.otherwise = parse_whole_body("endif");
      return node;
    }
  }

  for_statement parse_for() {
    for_statement node;
    node.loop_target = parse_target(false, "in");
    if (!skip_name("in")) fail_expected("in");
    node.iterable = parse_tuple(conditionals::not_allowed, "recursive");
    if (skip_name("if")) node.test = parse_expression();
    node.recursive = skip_name("recursive");
    node.body = parse_body({"endfor", "else"});
    if (next().text == "else") node.otherwise = parse_whole_body("endfor");
    node.test_target = node.loop_target;
    return node;
  }

  void parse_set(block& body, int line) {
    target where = parse_target(true, {});
    if (skip_op("=")) {
      add(body, line, set_statement{std::move(where), parse_tuple()});
      return;
    }
    set_block_statement node;
    node.where = std::move(where);
    node.filter = parse_filters(nullptr);
    node.body = parse_whole_body("endset");
    add(body, line, std::move(node));
  }

  std::string parse_plain_name() {
    const int line = current().line;
    std::string name = expect_name();
    if (is_constant_name(name)) fail_at(line, "can't assign to '" + name + "'");
    return name;
  }

  void parse_parameters(macro_body& macro) {
    expect_op("(");
    bool defaults = false;
    while (!current().is_op(")")) {
      if (!macro.parameters.empty()) expect_op(",");
      parameter made;
      made.line = current().line;
      made.name = parse_plain_name();
      if (skip_op("=")) {
        made.fallback = parse_expression();
        defaults = true;
      } else if (defaults) {
        fail_here("non-default argument follows default argument");
      }
      for (const parameter& other : macro.parameters)
        if (other.name == made.name) fail_at(made.line, "duplicate argument '" + made.name + "'");
      macro.parameters.push_back(std::move(made));
    }
    expect_op(")");
  }

  macro_statement parse_macro(int line) {
    macro_statement node;
    node.where.line = line;
    node.where.name = node.macro.name = parse_plain_name();
    parse_parameters(node.macro);
    node.macro.body = parse_whole_body("endmacro");
    return node;
  }

  call_statement parse_call_block(int line) {
    call_statement node;
    if (current().is_op("(")) parse_parameters(node.macro);
    node.call = parse_expression();
    if (!std::holds_alternative<call_expression>(node.call->node)) fail_at(line, "expected call");
    node.macro.body = parse_whole_body("endcall");
    return node;
  }

  generation_statement parse_generation() {
    generation_statement node;
    node.macro.body = parse_whole_body("endgeneration");
    return node;
  }

  filter_statement parse_filter_block() {
    filter_statement node;
    node.filter = parse_filters(nullptr, true);
    node.body = parse_whole_body("endfilter");
    return node;
  }

  with_statement parse_with() {
    with_statement node;
    while (current().kind != token_kind::block_end) {
      if (!node.assignments.empty()) expect_op(",");
      target where = parse_target(false, {});
      expect_op("=");
      node.assignments.emplace_back(std::move(where), parse_expression());
    }
    node.body = parse_whole_body("endwith");
    return node;
  }

  output_statement parse_print() {
    output_statement node;
    while (current().kind != token_kind::block_end) {
      if (!node.parts.empty()) expect_op(",");
      node.parts.push_back({{}, parse_expression()});
    }
    return node;
  }

  void parse_named_block(block& body, int line) {
    block_statement node;
    node.name = expect_name();
    node.scoped = skip_name("scoped");
    node.required = skip_name("required");
    if (current().is_op("-")) fail_here("block names may not contain hyphens, use an underscore instead");
    node.body = parse_whole_body("endblock");
    (void)skip_name(node.name);
    for (const block_statement* other : blocks_)
      if (other->name == node.name) fail_at(line, "block '" + node.name + "' defined twice");
    blocks_.push_back(&add(body, line, std::move(node)));
  }

  /// The target of an assignment. `end_word`: the name that ends a tuple of targets.
  target parse_target(bool with_namespace, std::string_view end_word) {
    const level nested(*this);
    target tuple;
    tuple.what = target::kind::tuple;
    tuple.line = current().line;
    bool is_tuple = false;
    while (!at_target_end(end_word)) {
      tuple.parts.push_back(parse_single_target(with_namespace));
      if (!skip_op(",")) break;
      is_tuple = true;
    }
    if (is_tuple) return tuple;
    if (tuple.parts.empty()) fail_here("expected an expression, got '" + describe(current()) + "'");
    target single = std::move(tuple.parts.front());
    return single;
  }

  bool at_target_end(std::string_view end_word) const {
    return current().kind == token_kind::block_end || current().is_op(")") ||
           (!end_word.empty() && current().is_name(end_word));
  }

  target parse_single_target(bool with_namespace) {
    target made;
    made.line = current().line;
    if (skip_op("(")) {
      if (skip_op(")")) {
        made.what = target::kind::tuple;
        return made;
      }
      made = parse_target(false, {});
      expect_op(")");
      return made;
    }
    if (current().kind != token_kind::name) fail_here("can't assign to '" + describe(current()) + "'");
    made.name = parse_plain_name();
    if (with_namespace && skip_op(".")) {
      made.what = target::kind::namespace_attribute;
      made.attribute = expect_name();
    }
    return made;
  }

  const template_options& options_;
  std::vector<const block_statement*> blocks_;
};

} // namespace

template_tree parse_template(std::string_view source, const template_options& options) {
  template_tree tree = statement_parser(tokenize(source, options), options).run();
  resolve_names(tree);
  return tree;
}

} // namespace paceline::tokenizer::jinja

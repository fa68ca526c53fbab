#pragma once

#include "runtime/tokenizer/chat_template/python/failure.hpp"
#include "runtime/tokenizer/chat_template/syntax/expression_parser.hpp"
#include "runtime/tokenizer/chat_template/syntax/tree_walk.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace paceline::tokenizer::jinja {

/// Makes a node and computes its height. Fails if the height exceeds the limit for recursive walks over the
/// tree.
template <class Node>
expression_ptr make(int line, Node node) {
  auto made = std::make_unique<expression>();
  made->line = line;
  made->node = std::move(node);
  for_each_child(*made,
                 [&](const expression& child) { made->height = std::max(made->height, child.height + 1); });
  if (made->height > expression_parser::max_height)
    fail_at(line, "the expression is nested deeper than 200 levels");
  return made;
}

inline constant number_constant(const value& v) {
  constant c;
  c.number = v;
  return c;
}

} // namespace paceline::tokenizer::jinja

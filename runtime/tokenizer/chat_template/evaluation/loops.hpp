#pragma once

#include "runtime/tokenizer/chat_template/python/iteration.hpp"
#include "runtime/tokenizer/chat_template/syntax/ast.hpp"

#include <optional>

namespace paceline::tokenizer::jinja {

struct activation;

/// The items of a loop: all of an iterable, or those that satisfy the loop's `if`, produced one at a time.
struct item_source {
  item_source() = default;
  item_source(const item_source&) = delete;
  item_source& operator=(const item_source&) = delete;
  virtual ~item_source() = default;
  virtual bool next(value& out) = 0;
};

/// The variable `loop`.
struct loop_object final : object {
  item_source* source = nullptr;  ///< null once the loop has ended
  std::optional<wide_int> length; ///< known from the start, or counted at the first use
  /// the statement that loop(...) renders again; null unless the loop is recursive
  const for_statement* recursive = nullptr;
  activation* closure = nullptr; ///< activation in which the recursive loop was defined
  wide_int depth0 = 0, index0 = -1;
  value before, current;
  std::vector<value> ahead; ///< items that were read ahead from the source, last one first
  std::vector<value> last_changed;
  bool changed_once = false;

  /// Moves the next item into `current`; false at the end.
  bool advance(runtime& rt);
  /// The item after this one, or null at the end.
  const value* peek(runtime& rt);
  wide_int total(runtime& rt);

  std::string describe(runtime& rt) override;
  std::optional<value> attribute(runtime& rt, std::string_view name) override;
};

} // namespace paceline::tokenizer::jinja

#pragma once

#include "runtime/base/token_constraint.hpp"

#include <cstddef>
#include <memory>
#include <optional>

namespace paceline::rounds {

/// The cursor of a request's constraint for its drafts. The request's tokens are chosen with another cursor,
/// so the work for drafts never ends a request and never changes a token (docs/decisions/0660).
///
/// When the work of this cursor is used up, it allows nothing, and the request gets no drafts. After a number
/// of further output tokens a new cursor takes its place. That one must follow the whole output first, which
/// may take all of its work, so the number doubles each time.
class draft_cursor {
 public:
  /// In so many tokens a cursor earns what it may save up.
  static constexpr std::size_t first_rest = 32;

  /// The cursor for drafts that continue `num_output` committed output tokens; null if `constraint` is.
  constraint_cursor* at(const token_constraint* constraint, std::size_t num_output);

 private:
  std::unique_ptr<constraint_cursor> cursor_; ///< created at first use
  std::optional<std::size_t> rests_until_;    ///< length of the output; set when the work is found used up
  std::size_t next_rest_ = first_rest;
};

} // namespace paceline::rounds

#pragma once

#include "runtime/base/token_constraint.hpp"

#include <cstddef>
#include <memory>
#include <optional>

namespace paceline::rounds {

/// The cursor of a request's constraint (runtime/base/token_constraint.hpp) that checks its drafts. The
/// request's tokens are chosen with another cursor, so the work for drafts never ends a request and never
/// changes a token (docs/decisions/0660).
///
/// A cursor may do a limited amount of work. When this cursor has exceeded its limit, it allows no token, so
/// the request gets no drafts. After `first_rest` further output tokens a new cursor replaces it. The new
/// cursor must first follow the whole output, which may already exceed its limit. So each further rest is
/// twice as long.
class draft_cursor {
 public:
  /// Length of the first rest in output tokens. A cursor's limit grows with each token. The unused part of
  /// the limit is capped at the initial limit plus the growth of this many tokens.
  static constexpr std::size_t first_rest = 32;

  /// The cursor for drafts that continue `num_output` committed output tokens; null if `constraint` is null.
  constraint_cursor* at(const token_constraint* constraint, std::size_t num_output);

 private:
  std::unique_ptr<constraint_cursor> cursor_; ///< created at first use
  std::optional<std::size_t> rests_until_;    ///< output length; set when the cursor is found exhausted
  std::size_t next_rest_ = first_rest;
};

} // namespace paceline::rounds

#pragma once

#include "runtime/base/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace paceline {

/// Follows an output through a constraint and tells which tokens may come next. A cursor can move backwards.
/// So one object gives the masks for draft tokens and, after a rejection, for other tokens. A request has one
/// cursor for the choice of its tokens, and others for its drafts.
///
/// In all functions `output` are the request's output tokens, and `path` are tokens that follow them, such as
/// draft tokens. Not thread-safe.
class constraint_cursor {
 public:
  virtual ~constraint_cursor() = default;

  /// The mask (token_bits.hpp) of the tokens that may follow `output` and `path`. No bit is set if the
  /// constraint does not allow `output` followed by `path`. If the output may end here, the bits of the
  /// tokens that end it are set. If it must end here, or if `path` already contains the end, only these bits
  /// are set. The span is valid until the next call.
  virtual std::span<const std::uint32_t> allowed(std::span<const token_id> output,
                                                 std::span<const token_id> path) = 0;

  /// How many tokens of `next`, from its first one on, may follow `output` and `path` in this order. Only the
  /// text of `output` and `path` matters, not its division into tokens.
  virtual std::size_t num_allowed(std::span<const token_id> output, std::span<const token_id> path,
                                  std::span<const token_id> next) = 0;

  /// Appends to `out` at most `max_tokens` tokens of the text that must follow `output`, up to a place where
  /// several continuations are possible or the output must end. If the next token of this text could also be
  /// a longer token that begins with it, nothing more is appended, and one of these tokens is returned: the
  /// one that `output` used most recently, or else the shortest.
  virtual std::optional<token_id> append_forced(std::span<const token_id> output, std::size_t max_tokens,
                                                std::vector<token_id>& out) = 0;

  /// True if the constraint, or a part of it, has exceeded its limit of work. After that, the constraint, or
  /// that part, allows no token.
  virtual bool is_exhausted() const noexcept { return false; }
};

/// What the output of a request must match, such as a grammar, compiled for one vocabulary. Immutable; all
/// functions are thread-safe.
class token_constraint {
 public:
  virtual ~token_constraint() = default;
  /// A cursor at the beginning of an output.
  virtual std::unique_ptr<constraint_cursor> begin() const = 0;
  /// Memory of the compiled form, in bytes.
  virtual std::size_t num_bytes() const noexcept = 0;
};

} // namespace paceline

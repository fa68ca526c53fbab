#pragma once

#include "runtime/base/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace paceline {

/// Follows an output through a constraint and tells which tokens may come next. It can move backwards, so one
/// object gives the masks for draft tokens and, after a rejection, for other tokens. A request has one cursor
/// with which its tokens are chosen, and others for its drafts.
///
/// In all functions `output` are the request's output tokens, and `path` are tokens that follow them, such as
/// draft tokens. Not thread-safe.
class constraint_cursor {
 public:
  virtual ~constraint_cursor() = default;

  /// The tokens that may follow `output` and `path`, one bit for each token of the vocabulary, from the
  /// lowest bit of the first word on. No bit is set if the constraint does not allow `output` followed by
  /// `path`. If the output may end here, the bits of the tokens that end it are set; if it must end, only
  /// these. If `path` already contains the end, again only these are set. The span is valid until the next
  /// call.
  virtual std::span<const std::uint32_t> allowed(std::span<const token_id> output,
                                                 std::span<const token_id> path) = 0;

  /// The number of leading tokens of `next` that may follow `output` and `path` one after the other. Only the
  /// text of `output` and `path` matters, not its division into tokens.
  virtual std::size_t num_allowed(std::span<const token_id> output, std::span<const token_id> path,
                                  std::span<const token_id> next) = 0;

  /// Appends to `out` at most `max_tokens` tokens of the text that must follow `output`, up to a place where
  /// several continuations are possible or the output must end. If the next token of this text could also be
  /// a longer token that begins with it, nothing more is appended, and one of these tokens is returned: the
  /// one that `output` used most recently, or else the shortest.
  virtual std::optional<token_id> append_forced(std::span<const token_id> output, std::size_t max_tokens,
                                                std::vector<token_id>& out) = 0;

  /// True if the constraint, or a part of it, has taken more work than it may. From then on it allows
  /// nothing, or nothing of that part.
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

#pragma once

#include "runtime/base/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace paceline {

/// A place in the outputs that a constraint allows. It moves forwards and backwards by tokens, so that masks
/// of draft tokens and of tokens behind a rejected draft come from the same object. A copy costs memory, so
/// each owner of a place (the verify programs of a request, a drafter's session) has a cursor of its own.
///
/// In all functions `output` are the request's output tokens and `path` further tokens behind them, such as
/// draft tokens. Not thread-safe.
class constraint_cursor {
 public:
  virtual ~constraint_cursor() = default;

  /// The tokens that may follow `output` and `path`, one bit for each token of the vocabulary, from the
  /// lowest bit of the first word on. No bit is set if the constraint does not allow `output` and `path`
  /// themselves. Once an output may end, the bits of the tokens that end it are set; when it must end, no
  /// others are, and so behind the end, where a draft may go on. Valid until the next call.
  virtual std::span<const std::uint32_t> allowed(std::span<const token_id> output,
                                                 std::span<const token_id> path) = 0;

  /// How many of the leading tokens of `next` may follow `output` and `path` in that order. `output` and
  /// `path` are judged by their text, whatever its division into tokens.
  virtual std::size_t num_allowed(std::span<const token_id> output, std::span<const token_id> path,
                                  std::span<const token_id> next) = 0;

  /// Appends at most `max_tokens` tokens of the text that must follow `output`, whatever is chosen. Appends
  /// nothing if several texts may follow, or only the end. If a token that is longer than the rest of this
  /// text may stand in place of the next one, that one is not appended but returned: as the one that `output`
  /// used last, else the shortest.
  virtual std::optional<token_id> append_forced(std::span<const token_id> output, std::size_t max_tokens,
                                                std::vector<token_id>& out) = 0;
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

#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/tokenizer/incremental_decoder.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::tokenizer {

/// Finds the first of several strings in a text that arrives in parts (Knuth, Morris, Pratt 1977). The first
/// string is the one that ends first; if several end at the same byte, the longest. The division into parts
/// does not matter. Not thread-safe.
class stop_matcher {
 public:
  /// Empty strings are ignored.
  explicit stop_matcher(const std::vector<std::string>& strings);

  /// Processes the next byte. Returns the length of the string that ends with it, or nullopt.
  std::optional<std::size_t> feed(char byte) noexcept;

  /// Bytes in the text's longest suffix that is one of the strings or a prefix of one.
  std::size_t num_undecided_bytes() const noexcept;

 private:
  struct pattern {
    std::string text;
    /// [n]: length of the longest proper border (both prefix and suffix) of the first n bytes
    std::vector<std::uint32_t> fallback;
    std::uint32_t matched = 0; ///< bytes
  };
  std::vector<pattern> patterns_;
};

/// The text that one token of a generation adds for the client.
struct stream_text {
  std::string text;                       ///< whole characters; may lag behind the tokens
  std::optional<std::string> stop_string; ///< the stop string that was found: the text ends here
};

/// The text of a generation as clients see it: decoded tokens up to the first stop string. Text that may be
/// the beginning of a stop string is held back until later text shows whether it is. One object for each
/// generation; not thread-safe.
class text_stream {
 public:
  text_stream(tokenizer vocabulary, const std::vector<std::string>& stop_strings,
              bool include_stop_string = false, decode_options options = {});

  /// Adds a token and returns the text that is now certain. Empty after a stop string. If `may_stop` is
  /// false, a stop string that this token completes counts as text.
  stream_text feed(token_id token, bool may_stop = true) { return release(decoder_.feed(token), may_stop); }

  /// Ends the text after the last token: returns all that was held back. Bytes that the decoder held back may
  /// complete a stop string, which then ends the text.
  stream_text finish();

  /// True once a stop string was found.
  bool stopped() const noexcept { return stopped_; }

 private:
  stream_text release(std::string_view decoded, bool may_stop);

  incremental_decoder decoder_;
  stop_matcher matcher_;
  std::string held_;
  bool include_stop_string_;
  bool stopped_ = false;
};

} // namespace paceline::tokenizer

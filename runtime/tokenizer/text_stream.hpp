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

/// Finds the first of several strings in a text that comes in parts (Knuth, Morris, Pratt 1977). First is the
/// one whose last byte comes first, of those the longest: how the text is cut into parts makes no difference.
class stop_matcher {
 public:
  /// Empty strings are ignored.
  explicit stop_matcher(const std::vector<std::string>& strings);

  /// Takes the next byte. The length of the string that ends with it, or none.
  std::optional<std::size_t> feed(char byte) noexcept;

  /// Bytes at the end of the text so far that may still become a string.
  std::size_t num_undecided_bytes() const noexcept;

 private:
  struct pattern {
    std::string text;
    std::vector<std::uint32_t> fallback; ///< [n]: longest proper border of the first n bytes
    std::uint32_t matched = 0;           ///< bytes
  };
  std::vector<pattern> patterns_;
};

/// What one token of a generation lets a client see.
struct stream_text {
  std::string text;                       ///< whole characters; may lag behind the tokens
  std::optional<std::string> stop_string; ///< the one that was found: the text ends here
};

/// A generation's text as clients see it: decoded tokens up to the first stop string. Text that may begin a
/// stop string is held back until it is clear. One generation's; not for several threads at once.
class text_stream {
 public:
  text_stream(tokenizer vocabulary, const std::vector<std::string>& stop_strings,
              bool include_stop_string = false, decode_options options = {});

  /// `may_stop` false: a stop string that is complete with this token is text.
  stream_text feed(token_id token, bool may_stop = true) { return release(decoder_.feed(token), may_stop); }

  /// The end without a stop string: all that was held back.
  stream_text finish();

  bool stopped() const noexcept { return stopped_; }

 private:
  stream_text release(std::string_view decoded, bool may_stop);

  incremental_decoder decoder_;
  stop_matcher matcher_;
  std::string held_;
  bool include_stop_string_;
  bool stopped_ = false; ///< nothing is released any more
};

} // namespace paceline::tokenizer

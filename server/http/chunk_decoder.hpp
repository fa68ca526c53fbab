#pragma once

#include "protocol/wire/api_error.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace paceline::server {

/// Limits of a chunked body.
struct chunk_limits {
  std::uint64_t max_body_bytes = 8U << 20U;
  std::size_t max_extension_bytes = 4096; ///< of all chunks together
  std::size_t max_trailer_bytes = 4096;   ///< of all trailer lines together
};

/// Decodes a chunked request body in pieces of any size. Accepts only what RFC 9112 section 7.1 allows a
/// sender, so that a proxy in front and this server always agree where the request ends. Sizes are 1 to 16
/// hexadecimal digits, directly followed by CR LF or an extension. Lines and chunks end with CR LF. CR and LF
/// appear nowhere else in the framing. Extensions and trailers are checked and dropped.
class chunk_decoder {
 public:
  explicit chunk_decoder(const chunk_limits& limits) : limits_(limits) {}

  /// Removes framing and the body bytes that follow it from the front of `bytes`, and returns these body
  /// bytes. The result is empty only if `bytes` is used up, the body has ended, or the body was refused.
  /// After the end nothing is removed.
  std::string_view next(std::string_view& bytes);

  bool at_end() const noexcept { return state_ == state::ended; }
  /// Why the body was refused. The connection must be closed: it is unclear where the next request begins.
  const std::optional<wire::api_error>& refusal() const noexcept { return refusal_; }

 private:
  enum class state : std::uint8_t {
    size_begin,    ///< before the first digit
    size,          ///< after a digit
    extension,     ///< after the semicolon
    size_end,      ///< after the CR of the size's line
    data,          ///< in the chunk
    data_cr,       ///< after the chunk
    data_lf,       ///< after its CR
    line_begin,    ///< before a trailer or the final empty line
    trailer_name,  ///< after the first character
    trailer_value, ///< after the colon
    trailer_end,   ///< after the CR of a trailer
    final_lf,      ///< after the CR of the final empty line
    ended,
    refused
  };

  /// One byte of framing.
  void take(char c);
  void take_size(char c);
  void take_digit(std::uint64_t digit);
  void take_trailer(char c);
  void end_size_line();
  void expect(char c, char expected, state after);
  void refuse(const char* message);
  void refuse_long_body();

  const chunk_limits limits_;
  state state_ = state::size_begin;
  /// Size of the chunk while its line is read; then the number of its bytes that are missing.
  std::uint64_t size_ = 0;
  std::uint32_t num_digits_ = 0;
  std::uint64_t body_bytes_ = 0; ///< of this chunk and those before it
  std::size_t extension_bytes_ = 0;
  std::size_t trailer_bytes_ = 0;
  std::optional<wire::api_error> refusal_;
};

} // namespace paceline::server

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace paceline::server {

/// Limits of a request head, checked before a body is read.
struct head_limits {
  std::size_t max_bytes = 16U << 10U;
  std::size_t max_headers = 100;
  std::size_t max_target_bytes = 4096;
};

/// A request line and headers that passed the checks. Header names are lower case.
struct request_head {
  std::string method;
  std::string path;  ///< decoded; begins with '/'
  std::string query; ///< as sent, without '?'
  bool http_1_0 = false;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string host;                            ///< the one Host value
  std::optional<std::uint64_t> content_length; ///< never together with `is_chunked`
  bool is_chunked = false;                     ///< the body is chunked
  bool keep_alive = true;
  bool expects_continue = false;
  bool upgrades_to_websocket = false;

  /// True if a body follows, or may follow.
  bool has_body() const noexcept { return content_length.value_or(0) > 0 || is_chunked || expects_continue; }
  /// True if the client sends its body only after it was told to continue (Expect: 100-continue).
  bool waits_for_continue() const noexcept {
    return expects_continue && !http_1_0 && (is_chunked || content_length.value_or(0) > 0);
  }
  /// The first header of that (lower-case) name; empty if there is none.
  std::string_view header(std::string_view name) const noexcept;
  /// Value of a query parameter, percent-decoded ('+' is unchanged); nullopt if it is absent or contains NUL.
  std::optional<std::string> query_value(std::string_view name) const;
};

/// Why a head was refused. The connection is closed after the reply, because it is unclear where the next
/// request begins.
struct head_refusal {
  int status = 400;
  std::string message;
};

/// The head is not complete yet.
struct head_incomplete {};

/// A parsed head and its length in bytes, blank line included.
struct head_complete {
  request_head head;
  std::size_t num_bytes = 0;
};

/// A strict HTTP/1.1 head parser: Beast's parser, with further checks before and after it. It refuses:
/// - bare CR or LF, NUL, folded lines, and a space before a colon;
/// - a Transfer-Encoding, except a single "chunked" in HTTP/1.1 without Content-Length;
/// - several Host headers, or none in HTTP/1.1; a repeated Content-Length, or one with several values;
/// - a target that is not a URI, or an absolute target with another host than the Host header;
/// - an Expect other than 100-continue; more headers or bytes than `limits`.
///
/// Errors in single lines are found before the head is complete. `bytes` must begin with a request line.
std::variant<head_incomplete, head_refusal, head_complete> parse_request_head(std::string_view bytes,
                                                                              const head_limits& limits);

} // namespace paceline::server

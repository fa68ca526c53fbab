#pragma once

#include "server/http/beast_codec.hpp"
#include "server/http/reply_channel.hpp"

#include <ctime>
#include <string>
#include <string_view>

namespace paceline::server {

/// A reply as bytes: status line, headers, body. With `head_only` (for HEAD) the body is omitted.
/// `shared_body` is never copied here: the caller sends it after these bytes. Content-Length is the length of
/// the body, even if the body is omitted or shared; statuses 204 and 304 have no Content-Length. `now` is the
/// time of the reply's Date header (RFC 9110 section 6.6.1).
std::string write_reply(const http_reply& reply, bool keep_alive, bool head_only, std::time_t now);

/// The head of an event stream. `chunked` adds Transfer-Encoding: chunked, so that a client can tell the end
/// of the stream from a lost connection. For an HTTP/1.0 client pass false for both flags: closing the
/// connection then ends the body. The head tells proxies not to cache the stream (Cache-Control: no-store)
/// and not to buffer it (X-Accel-Buffering: no).
std::string write_stream_head(const header_list& headers, bool chunked, bool keep_alive, std::time_t now);
/// The head of a JSON body sent in pieces. `chunked` and `keep_alive` are as in `write_stream_head`; the
/// headers against caching and buffering are absent.
std::string write_pieces_head(const header_list& headers, bool chunked, bool keep_alive, std::time_t now);

/// The end of a body in chunks; for a chunk see write_chunk.
inline constexpr std::string_view last_chunk = "0\r\n\r\n";

/// One server-sent event; an empty `type` gives an event with data only. `json` must not contain a line
/// break.
std::string write_sse(std::string_view type, std::string_view json);
/// The text before and after the `json` of such an event, for JSON that is generated later.
std::string sse_prefix(std::string_view type);
inline constexpr std::string_view sse_suffix = "\n\n";

/// The first `max_bytes` bytes of `text` as a header value. Anything outside printable ASCII becomes '?', so
/// that client text cannot add a header.
std::string header_safe(std::string_view text, std::size_t max_bytes);

} // namespace paceline::server

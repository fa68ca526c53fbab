#pragma once

#include "server/http/beast_codec.hpp"
#include "server/http/reply_channel.hpp"

#include <string>
#include <string_view>

namespace paceline::server {

/// A reply as bytes: status line, headers, body. `head_only` (HEAD) omits the body but states its length. A
/// shared body is omitted, too.
std::string write_reply(const http_reply& reply, bool keep_alive, bool head_only);

/// The head of an event stream. With `chunked` a client can tell the end of the stream from a lost
/// connection, and the connection stays open; an HTTP/1.0 client gets plain bytes until the connection
/// closes. Its headers tell proxies neither to keep nor to collect events.
std::string write_stream_head(const header_list& headers, bool chunked, bool keep_alive);
/// The same for a JSON body in pieces.
std::string write_pieces_head(const header_list& headers, bool chunked, bool keep_alive);

/// The end of a body in chunks; for a chunk see write_chunk.
inline constexpr std::string_view last_chunk = "0\r\n\r\n";

/// One server-sent event; an empty `type` gives an event with data only. `json` must not contain a line
/// break.
std::string write_sse(std::string_view type, std::string_view json);
/// The text before and after the `json` of such an event, for JSON that is generated later.
std::string sse_prefix(std::string_view type);
inline constexpr std::string_view sse_suffix = "\n\n";

/// `text` as a header value. Anything outside printable ASCII becomes '?', so that client text cannot add a
/// header.
std::string header_safe(std::string_view text, std::size_t max_bytes);

} // namespace paceline::server

#pragma once

#include "server/http/reply_channel.hpp"

#include <string>
#include <string_view>

namespace paceline::server {

/// Standard phrase of a status.
std::string_view reason_phrase(int status) noexcept;

/// A reply as bytes: status line, headers, body. `head_only` leaves the body out (HEAD) but states its
/// length; a shared body is left out too.
std::string write_reply(const http_reply& reply, bool keep_alive, bool head_only);

/// The head of an event stream. Chunked, so that a client can tell the end from a loss and the connection
/// lives on; an HTTP/1.0 client gets plain bytes up to the close.
std::string write_stream_head(const header_list& headers, bool chunked, bool keep_alive);
/// The same of a JSON body.
std::string write_pieces_head(const header_list& headers, bool chunked, bool keep_alive);

/// `bytes` as one chunk; they must not be empty.
std::string write_chunk(std::string_view bytes);
inline constexpr std::string_view last_chunk = "0\r\n\r\n";

/// One server-sent event; `type` empty = data only. `json` must hold no line break.
std::string write_sse(std::string_view type, std::string_view json);
/// The same around a `json` that is made later: what stands before it, and behind.
std::string sse_prefix(std::string_view type);
inline constexpr std::string_view sse_suffix = "\n\n";

/// `text` as a header value: anything outside printable ASCII becomes '?', so that no client text can add a
/// header.
std::string header_safe(std::string_view text, std::size_t max_bytes);

} // namespace paceline::server

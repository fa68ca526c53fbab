#include "server/http/http_writer.hpp"

#include <array>
#include <charconv>

namespace paceline::server {

namespace {

void append_headers(std::string& out, const header_list& headers) {
  for (const auto& [name, value] : headers)
    out.append(name).append(": ").append(header_safe(value, 4096)).append("\r\n");
}

std::string status_line(int status) {
  return std::string("HTTP/1.1 ")
      .append(std::to_string(status))
      .append(" ")
      .append(reason_phrase(status))
      .append("\r\n");
}

/// Ends a head that states no length.
std::string end_open_head(std::string out, bool chunked, bool keep_alive) {
  out.append("X-Content-Type-Options: nosniff\r\n");
  if (chunked) out.append("Transfer-Encoding: chunked\r\n");
  return out.append(keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
}

} // namespace

std::string_view reason_phrase(int status) noexcept {
  switch (status) {
  case 100:
    return "Continue";
  case 200:
    return "OK";
  case 204:
    return "No Content";
  case 400:
    return "Bad Request";
  case 401:
    return "Unauthorized";
  case 403:
    return "Forbidden";
  case 404:
    return "Not Found";
  case 405:
    return "Method Not Allowed";
  case 408:
    return "Request Timeout";
  case 409:
    return "Conflict";
  case 411:
    return "Length Required";
  case 413:
    return "Content Too Large";
  case 414:
    return "URI Too Long";
  case 415:
    return "Unsupported Media Type";
  case 417:
    return "Expectation Failed";
  case 426:
    return "Upgrade Required";
  case 429:
    return "Too Many Requests";
  case 431:
    return "Request Header Fields Too Large";
  case 500:
    return "Internal Server Error";
  case 503:
    return "Service Unavailable";
  case 505:
    return "HTTP Version Not Supported";
  default:
    return "Unknown";
  }
}

std::string write_reply(const http_reply& reply, bool keep_alive, bool head_only) {
  auto out = status_line(reply.status);
  append_headers(out, reply.headers);
  if (reply.status != 204) {
    out.append("Content-Type: ").append(reply.content_type).append("\r\n");
    const auto size = reply.shared_body ? reply.shared_body->size() : reply.body.size();
    out.append("Content-Length: ").append(std::to_string(size)).append("\r\n");
  }
  out.append("X-Content-Type-Options: nosniff\r\n");
  out.append(keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
  if (!head_only) out.append(reply.body);
  return out;
}

std::string write_stream_head(const header_list& headers, bool chunked, bool keep_alive) {
  auto out = status_line(200);
  append_headers(out, headers);
  out.append(
      "Content-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\n");
  return end_open_head(std::move(out), chunked, keep_alive);
}

std::string write_pieces_head(const header_list& headers, bool chunked, bool keep_alive) {
  auto out = status_line(200);
  append_headers(out, headers);
  out.append("Content-Type: application/json\r\n");
  return end_open_head(std::move(out), chunked, keep_alive);
}

std::string write_chunk(std::string_view bytes) {
  std::array<char, 16> size{};
  const auto end = std::to_chars(size.data(), size.data() + size.size(), bytes.size(), 16).ptr;
  std::string out(size.data(), end);
  return out.append("\r\n").append(bytes).append("\r\n");
}

std::string sse_prefix(std::string_view type) {
  std::string out;
  if (!type.empty()) out.append("event: ").append(type).append("\n");
  return out.append("data: ");
}

std::string write_sse(std::string_view type, std::string_view json) {
  auto out = sse_prefix(type);
  out.reserve(out.size() + json.size() + sse_suffix.size());
  return out.append(json).append(sse_suffix);
}

std::string header_safe(std::string_view text, std::size_t max_bytes) {
  std::string out(text.substr(0, max_bytes));
  for (auto& c : out)
    if (c < ' ' || c >= 0x7f) c = '?';
  return out;
}

} // namespace paceline::server

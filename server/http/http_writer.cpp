#include "server/http/http_writer.hpp"

#include <iomanip>
#include <locale>
#include <sstream>
#include <utility>

namespace paceline::server {

namespace {

/// `headers` without characters that could end a line.
header_list safe(const header_list& headers) {
  header_list out;
  out.reserve(headers.size() + 5);
  for (const auto& [name, value] : headers) out.emplace_back(name, header_safe(value, 4096));
  return out;
}

/// A time as in a Date header (RFC 9110 section 5.6.7), whatever the process's locale.
std::string http_date(std::time_t time) {
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << std::put_time(&parts, "%a, %d %b %Y %H:%M:%S GMT");
  return out.str();
}

/// Adds the headers that every reply has.
std::string write_head(int status, header_list fields, bool keep_alive, bool chunked, std::time_t now) {
  fields.emplace_back("Date", http_date(now));
  fields.emplace_back("X-Content-Type-Options", "nosniff");
  if (chunked) fields.emplace_back("Transfer-Encoding", "chunked");
  fields.emplace_back("Connection", keep_alive ? "keep-alive" : "close");
  return server::write_head(status, fields);
}

} // namespace

std::string write_reply(const http_reply& reply, bool keep_alive, bool head_only, std::time_t now) {
  auto fields = safe(reply.headers);
  if (reply.status != 204 && reply.status != 304) {
    const auto size = reply.shared_body ? reply.shared_body->size() : reply.body.size();
    fields.emplace_back("Content-Type", reply.content_type);
    fields.emplace_back("Content-Length", std::to_string(size));
  }
  auto out = write_head(reply.status, std::move(fields), keep_alive, false, now);
  return head_only ? out : std::move(out.append(reply.body));
}

std::string write_stream_head(const header_list& headers, bool chunked, bool keep_alive, std::time_t now) {
  auto fields = safe(headers);
  fields.emplace_back("Content-Type", "text/event-stream; charset=utf-8");
  fields.emplace_back("Cache-Control", "no-store");
  fields.emplace_back("X-Accel-Buffering", "no");
  return write_head(200, std::move(fields), keep_alive, chunked, now);
}

std::string write_pieces_head(const header_list& headers, bool chunked, bool keep_alive, std::time_t now) {
  auto fields = safe(headers);
  fields.emplace_back("Content-Type", "application/json");
  return write_head(200, std::move(fields), keep_alive, chunked, now);
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

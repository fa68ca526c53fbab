#include "server/http/request_head.hpp"

#include "server/http/beast_codec.hpp"

#include <boost/url/parse.hpp>
#include <boost/url/pct_string_view.hpp>

#include <algorithm>
#include <cstring>

namespace paceline::server {

namespace {

namespace urls = boost::urls;

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return lower(c); });
  return out;
}

/// True for name[:port] or [v6][:port] with permitted characters.
bool is_host(std::string_view text) noexcept {
  return !text.empty() && text.size() <= 262 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != 0 && std::strchr(".-_:[]", c) != nullptr);
  });
}

using refusal = std::optional<head_refusal>;

refusal refuse(int status, std::string message) { return head_refusal{status, std::move(message)}; }

/// Checks what a single line shows before the head is complete.
refusal check_line(std::string_view line, bool is_first) {
  if (!is_first)
    return line.front() == ' ' || line.front() == '\t' ? refuse(400, "folded header lines are not accepted")
                                                       : std::nullopt;
  const auto version = line.substr(line.rfind(' ') + 1);
  if (version == "HTTP/1.1" || version == "HTTP/1.0") return std::nullopt;
  if (version.substr(0, 5) == "HTTP/") return refuse(505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
  return refuse(400, "the request line must end with the HTTP version");
}

/// Bytes of the head, empty line included; 0 if it is not complete yet.
std::variant<std::size_t, head_refusal> find_end(std::string_view bytes, const head_limits& limits) {
  const auto window = bytes.substr(0, std::min(bytes.size(), limits.max_bytes));
  std::size_t begin = 0;
  for (std::size_t num_lines = 0;; ++num_lines) {
    const auto end = window.find_first_of(std::string_view("\r\n\0", 3), begin);
    if (end == std::string_view::npos || (window[end] == '\r' && end + 1 == window.size())) {
      if (bytes.size() < limits.max_bytes) return std::size_t{0};
      return head_refusal{431,
                          "the request head has more than " + std::to_string(limits.max_bytes) + " bytes"};
    }
    if (window[end] != '\r' || window[end + 1] != '\n')
      return head_refusal{400, "lines must end with CR LF, and nothing else may hold either"};
    const auto line = window.substr(begin, end - begin);
    begin = end + 2;
    if (line.empty() && num_lines > 0) return begin;
    if (auto refused = check_line(line, num_lines == 0)) return *std::move(refused);
    if (num_lines > limits.max_headers)
      return head_refusal{431,
                          "the request has more than " + std::to_string(limits.max_headers) + " headers"};
  }
}

/// Reads an origin-form or absolute-form target. `authority` is that of an absolute target.
refusal read_target(std::string_view target, request_head& head, std::string& authority) {
  const auto scheme = lower(target.substr(0, 8));
  const bool is_absolute = scheme.starts_with("http://") || scheme == "https://";
  if (!is_absolute && target.front() != '/') return refuse(400, "the request target must begin with /");
  // The target is checked in two parts, because clients send brackets and bars in queries, which a URI may
  // not have.
  const auto mark = std::min(target.find('?'), target.size());
  const auto query = target.substr(std::min(mark + 1, target.size()));
  const auto url = is_absolute ? urls::parse_absolute_uri({target.data(), mark})
                               : urls::parse_origin_form({target.data(), mark});
  const bool is_visible = std::all_of(query.begin(), query.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!url || !is_visible || !urls::make_pct_string_view({query.data(), query.size()}))
    return refuse(400, "the request target has a broken escape, or a character that must be escaped");
  if (is_absolute) {
    authority = lower({url->encoded_authority().data(), url->encoded_authority().size()});
    if (authority.empty()) return refuse(400, "the request target names no host");
    if (url->encoded_path().empty()) return refuse(400, "the request target has no path");
  }
  head.path = url->path();
  if (head.path.find('\0') != std::string::npos) return refuse(400, "the request target has a broken escape");
  head.query = std::string(query);
  return std::nullopt;
}

/// The part of `field`'s line in the head `bytes` after the colon.
std::string_view raw_value(std::string_view bytes, const split_head::field& field) {
  const auto begin = static_cast<std::size_t>(field.name.data() - bytes.data()) + field.name.size() + 1;
  return bytes.substr(begin, bytes.find('\r', begin) - begin);
}

/// Accepts only the exact spelling, including case and blanks. Proxies disagree about all other spellings,
/// and so about where the request ends.
refusal read_transfer_encoding(std::string_view value, request_head& head) {
  if ((value != " chunked" && value != "chunked") || head.is_chunked)
    return refuse(400,
                  "the only Transfer-Encoding of a request is \"chunked\", once, and without Content-Length");
  if (head.http_1_0) return refuse(400, "HTTP/1.0 has no Transfer-Encoding");
  head.is_chunked = true;
  return std::nullopt;
}

/// Stores the fields, and checks those that can be checked one by one. `bytes` is the whole head.
refusal read_fields(const split_head& parts, std::string_view bytes, request_head& head) {
  std::size_t num_hosts = 0;
  std::size_t num_lengths = 0;
  for (const auto& field : parts.fields) {
    auto& [name, value] = head.headers.emplace_back(lower(field.name), std::string(field.value));
    if (name == "transfer-encoding")
      if (auto refused = read_transfer_encoding(raw_value(bytes, field), head)) return refused;
    if (name == "content-length" && (++num_lengths > 1 || value.find(',') != std::string::npos))
      return refuse(400, "Content-Length must be one decimal number, and not repeated");
    if (name == "expect") {
      if (lower(value) != "100-continue") return refuse(417, "the only expectation met here is 100-continue");
      head.expects_continue = true;
    }
    if (name == "host") {
      ++num_hosts;
      head.host = lower(value);
    }
  }
  if (num_hosts > 1 || (num_hosts == 0 && !head.http_1_0))
    return refuse(400, "exactly one Host header is required");
  if (num_hosts == 1 && !is_host(head.host)) return refuse(400, "the Host header is not a host name");
  return std::nullopt;
}

/// Refuses what Beast accepts and this server does not.
refusal filter(const split_head& parts, std::string_view bytes, const head_limits& limits,
               request_head& head) {
  if (parts.method.size() > 32) return refuse(400, "the method is too long");
  if (parts.target.size() > limits.max_target_bytes)
    return refuse(414,
                  "the request target has more than " + std::to_string(limits.max_target_bytes) + " bytes");
  head.method = std::string(parts.method);
  head.http_1_0 = parts.http_1_0;
  head.content_length = parts.content_length;
  head.keep_alive = parts.keep_alive;
  std::string authority;
  if (auto refused = read_target(parts.target, head, authority)) return refused;
  if (auto refused = read_fields(parts, bytes, head)) return refused;
  if (!authority.empty() && authority != head.host)
    return refuse(400, "the request target names another host than Host");
  // RFC 6455 section 4.2.1, RFC 9110 section 7.8: only a GET of HTTP/1.1 can become a WebSocket.
  head.upgrades_to_websocket = parts.asks_for_upgrade && head.method == "GET" && !head.http_1_0 &&
                               lower(head.header("upgrade")) == "websocket";
  return std::nullopt;
}

} // namespace

std::string_view request_head::header(std::string_view name) const noexcept {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

std::optional<std::string> request_head::query_value(std::string_view name) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const auto pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    const auto key = pair.substr(0, pair.find('='));
    if (key != name) continue;
    const auto raw = pair.substr(std::min(key.size() + 1, pair.size()));
    const auto escaped = urls::make_pct_string_view({raw.data(), raw.size()});
    auto value = escaped ? escaped->decode() : std::string(1, '\0');
    return value.find('\0') == std::string::npos ? std::optional(std::move(value)) : std::nullopt;
  }
  return std::nullopt;
}

std::variant<head_incomplete, head_refusal, head_complete> parse_request_head(std::string_view bytes,
                                                                              const head_limits& limits) {
  auto end = find_end(bytes, limits);
  if (auto* refused = std::get_if<head_refusal>(&end)) return std::move(*refused);
  const auto size = std::get<std::size_t>(end);
  if (size == 0) return head_incomplete{};
  const auto whole = bytes.substr(0, size);
  const auto parts = split_request_head(whole);
  if (!parts) return head_refusal{400, parts.error().message()};
  head_complete result;
  if (auto refused = filter(*parts, whole, limits, result.head)) return *std::move(refused);
  result.num_bytes = size;
  return result;
}

} // namespace paceline::server

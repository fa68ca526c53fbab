#include "server/http/request_head.hpp"

#include "server/http/field_characters.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace paceline::server {

namespace {

bool is_token(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}

bool is_field_value(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), is_value_char);
}

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return lower(c); });
  return out;
}

std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// True if the comma-separated list holds `word` (lower case).
bool lists(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    if (lower(trim(list.substr(0, comma))) == word) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

/// True for name[:port] or [v6][:port] with permitted characters.
bool is_host(std::string_view text) noexcept {
  return !text.empty() && text.size() <= 262 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != 0 && std::strchr(".-_:[]", c) != nullptr);
  });
}

std::optional<std::uint64_t> decimal(std::string_view text) noexcept {
  if (text.empty() || text.size() > 18) return std::nullopt;
  std::uint64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return number;
}

using refusal = std::optional<head_refusal>;

refusal refuse(int status, std::string message) { return head_refusal{status, std::move(message)}; }

/// Splits an origin-form or absolute-form target. `authority` is that of an absolute target.
refusal read_target(std::string_view target, request_head& head, std::string& authority) {
  if (const auto scheme = lower(target.substr(0, 7)); scheme == "http://") {
    target.remove_prefix(7);
    const auto slash = std::min(target.find_first_of("/?"), target.size());
    authority = lower(target.substr(0, slash));
    target.remove_prefix(slash);
    if (authority.empty()) return refuse(400, "the request target names no host");
    if (target.empty() || target.front() == '?') return refuse(400, "the request target has no path");
  }
  if (target.empty() || target.front() != '/') return refuse(400, "the request target must begin with /");
  const auto mark = std::min(target.find('?'), target.size());
  auto path = percent_decode(target.substr(0, mark));
  if (!path) return refuse(400, "the request target has a broken escape");
  head.path = std::move(*path);
  if (mark < target.size()) head.query = std::string(target.substr(mark + 1));
  return std::nullopt;
}

refusal read_request_line(std::string_view line, const head_limits& limits, request_head& head,
                          std::string& authority) {
  const auto first = line.find(' ');
  const auto last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return refuse(400, "the request line must have three parts");
  const auto method = line.substr(0, first);
  const auto target = line.substr(first + 1, last - first - 1);
  const auto version = line.substr(last + 1);
  if (!is_token(method) || method.size() > 32) return refuse(400, "the method is not a token");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    if (version.substr(0, 5) == "HTTP/") return refuse(505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    return refuse(400, "the request line must end with the HTTP version");
  }
  if (target.size() > limits.max_target_bytes)
    return refuse(414,
                  "the request target has more than " + std::to_string(limits.max_target_bytes) + " bytes");
  if (std::any_of(target.begin(), target.end(), [](char c) { return c <= ' ' || c >= 0x7f; }))
    return refuse(400, "the request target has a character that must be escaped");
  head.method = std::string(method);
  head.http_1_0 = version == "HTTP/1.0";
  return read_target(target, head, authority);
}

/// Only the exact spelling is accepted, blanks and case included: proxies disagree about all others, and so
/// about the end of the request.
refusal read_transfer_encoding(std::string_view line, request_head& head) {
  static constexpr std::string_view rule =
      "the only Transfer-Encoding of a request is \"chunked\", once, and without Content-Length";
  const auto value = line.substr(line.find(':') + 1);
  if ((value != " chunked" && value != "chunked") || head.is_chunked) return refuse(400, std::string(rule));
  head.is_chunked = true;
  return std::nullopt;
}

refusal read_header(std::string_view line, request_head& head) {
  if (line.front() == ' ' || line.front() == '\t') return refuse(400, "folded header lines are not accepted");
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return refuse(400, "a header line has no colon");
  const auto name = line.substr(0, colon);
  const auto value = trim(line.substr(colon + 1));
  if (!is_token(name)) return refuse(400, "a header name is not a token");
  if (!is_field_value(value)) return refuse(400, "a header value has a control character");
  head.headers.emplace_back(lower(name), std::string(value));
  if (head.headers.back().first == "transfer-encoding") return read_transfer_encoding(line, head);
  return std::nullopt;
}

/// Checks the headers together: framing, host, connection.
refusal judge_headers(request_head& head, const std::string& authority) {
  std::size_t num_hosts = 0;
  std::size_t num_lengths = 0;
  for (const auto& [name, value] : head.headers) {
    if (name == "host") {
      ++num_hosts;
      head.host = lower(value);
    }
    if (name == "content-length") {
      ++num_lengths;
      head.content_length = decimal(value);
      if (!head.content_length) return refuse(400, "Content-Length must be one decimal number");
    }
    if (name == "expect") {
      if (lower(value) != "100-continue") return refuse(417, "the only expectation met here is 100-continue");
      head.expects_continue = true;
    }
  }
  if (num_hosts > 1 || (num_hosts == 0 && !head.http_1_0))
    return refuse(400, "exactly one Host header is required");
  if (num_hosts == 1 && !is_host(head.host)) return refuse(400, "the Host header is not a host name");
  if (num_lengths > 1) return refuse(400, "Content-Length must not be repeated");
  if (head.is_chunked && num_lengths > 0)
    return refuse(400, "Transfer-Encoding and Content-Length must not come together");
  if (head.is_chunked && head.http_1_0) return refuse(400, "HTTP/1.0 has no Transfer-Encoding");
  if (!authority.empty() && authority != head.host)
    return refuse(400, "the request target names another host than Host");
  const auto connection = head.header("connection");
  head.keep_alive = head.http_1_0 ? lists(connection, "keep-alive") : !lists(connection, "close");
  head.upgrades_to_websocket = lists(connection, "upgrade") && lower(head.header("upgrade")) == "websocket";
  return std::nullopt;
}

} // namespace

std::optional<std::string> percent_decode(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : lower(c) >= 'a' && lower(c) <= 'f' ? lower(c) - 'a' + 10 : -1;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const auto high = digit(text[i + 1]);
    const auto low = digit(text[i + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

std::string_view request_head::header(std::string_view name) const noexcept {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return {};
}

std::optional<std::string> request_head::query_value(std::string_view name) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const auto end = std::min(rest.find('&'), rest.size());
    const auto pair = rest.substr(0, end);
    const auto equals = std::min(pair.find('='), pair.size());
    if (pair.substr(0, equals) == name) return percent_decode(pair.substr(std::min(equals + 1, pair.size())));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return std::nullopt;
}

std::variant<head_incomplete, head_refusal, head_complete> parse_request_head(std::string_view bytes,
                                                                              const head_limits& limits) {
  head_complete result;
  auto& head = result.head;
  std::string authority;
  std::size_t begin = 0;
  for (bool first = true;; first = false) {
    const auto window = bytes.substr(0, std::min(bytes.size(), limits.max_bytes));
    const auto end = window.find_first_of(std::string_view("\r\n\0", 3), begin);
    if (end == std::string_view::npos || (window[end] == '\r' && end + 1 == window.size())) {
      if (bytes.size() >= limits.max_bytes)
        return head_refusal{431,
                            "the request head has more than " + std::to_string(limits.max_bytes) + " bytes"};
      return head_incomplete{};
    }
    if (window[end] != '\r' || window[end + 1] != '\n')
      return head_refusal{400, "lines must end with CR LF, and nothing else may hold either"};
    const auto line = window.substr(begin, end - begin);
    begin = end + 2;
    if (line.empty() && !first) break;
    auto refused = first ? read_request_line(line, limits, head, authority) : read_header(line, head);
    if (!refused && head.headers.size() > limits.max_headers)
      refused = refuse(431, "the request has more than " + std::to_string(limits.max_headers) + " headers");
    if (refused) return *std::move(refused);
  }
  if (auto refused = judge_headers(head, authority)) return *std::move(refused);
  result.num_bytes = begin;
  return result;
}

} // namespace paceline::server

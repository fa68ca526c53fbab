#include "server/http/request_head.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

using outcome = std::variant<head_incomplete, head_refusal, head_complete>;

outcome parse(std::string_view bytes) { return parse_request_head(bytes, {}); }

/// 0 = accepted, 1 = incomplete, else the status.
int status_of(const outcome& result) {
  if (const auto* refusal = std::get_if<head_refusal>(&result)) return refusal->status;
  return std::holds_alternative<head_incomplete>(result) ? 1 : 0;
}

std::string post(const std::string& headers) {
  return std::string("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n").append(headers).append("\r\n");
}

TEST(request_head, reads_a_request) {
  const auto result = parse("POST /v1/a%20b?x=1&y=%41 HTTP/1.1\r\nHost: LocalHost:8000\r\nContent-Length: "
                            "5\r\nX-A:  b \r\n\r\nhello");
  const auto& head = std::get<head_complete>(result).head;
  EXPECT_EQ(head.method, "POST");
  EXPECT_EQ(head.path, "/v1/a b");
  EXPECT_EQ(head.query_value("y"), "A");
  EXPECT_FALSE(head.query_value("z"));
  EXPECT_EQ(head.host, "localhost:8000");
  EXPECT_EQ(head.content_length, 5U);
  EXPECT_EQ(head.header("x-a"), "b");
  EXPECT_TRUE(head.keep_alive);
}

struct framing_case {
  const char* name;
  std::string bytes;
  int status;
};

const std::string line = "GET / HTTP/1.1\r\n";

/// The length of the body.
std::vector<framing_case> length_cases() {
  return {
      {"chunked", post("Transfer-Encoding: chunked\r\n"), 0},
      {"chunked without a blank", post("Transfer-Encoding:chunked\r\n"), 0},
      {"chunked under a name in odd case", post("tRANSFER-eNCODING: chunked\r\n"), 0},
      {"chunked in capitals", post("Transfer-Encoding: Chunked\r\n"), 400},
      {"chunked and a blank", post("Transfer-Encoding: chunked \r\n"), 400},
      {"chunked and a tab", post("Transfer-Encoding: chunked\t\r\n"), 400},
      {"two blanks and chunked", post("Transfer-Encoding:  chunked\r\n"), 400},
      {"a tab and chunked", post("Transfer-Encoding:\tchunked\r\n"), 400},
      {"chunked in quotes", post("Transfer-Encoding: \"chunked\"\r\n"), 400},
      {"chunked with a parameter", post("Transfer-Encoding: chunked;q=1\r\n"), 400},
      {"chunked and a comma", post("Transfer-Encoding: chunked,\r\n"), 400},
      {"an empty coding", post("Transfer-Encoding:\r\n"), 400},
      {"chunked twice in a list", post("Transfer-Encoding: chunked, chunked\r\n"), 400},
      {"chunked in two headers", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400},
      {"chunked and identity", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"), 400},
      {"identity", post("Transfer-Encoding: identity\r\n"), 400},
      {"gzip and chunked", post("Transfer-Encoding: gzip, chunked\r\n"), 400},
      {"an unknown coding", post("Transfer-Encoding: xchunked\r\n"), 400},
      {"chunked, then identity", post("Transfer-Encoding: chunked, identity\r\n"), 400},
      {"length and chunked", post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"), 400},
      {"chunked and length", post("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n"), 400},
      {"chunked and length 0", post("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n"), 400},
      {"chunked before a folded coding", post("Transfer-Encoding: chunked\r\n identity\r\n"), 400},
      {"a blank before the colon", post("Transfer-Encoding : chunked\r\n"), 400},
      {"chunked in HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"two equal lengths", post("Content-Length: 1\r\nContent-Length: 1\r\n"), 400},
      {"two different lengths", post("Content-Length: 1\r\nContent-Length: 2\r\n"), 400},
      {"listed lengths", post("Content-Length: 1, 1\r\n"), 400},
      {"signed length", post("Content-Length: +1\r\n"), 400},
      {"negative length", post("Content-Length: -1\r\n"), 400},
      {"hexadecimal length", post("Content-Length: 0x1\r\n"), 400},
      {"fractional length", post("Content-Length: 1.0\r\n"), 400},
      {"empty length", post("Content-Length:\r\n"), 400},
      {"overflowing length", post("Content-Length: 18446744073709551617\r\n"), 400},
  };
}

std::vector<framing_case> request_line_cases() {
  return {
      {"minimal", line + "Host: a\r\n\r\n", 0},
      {"bare LF line end", "GET / HTTP/1.1\nHost: a\n\n", 400},
      {"tab separators", "GET\t/\tHTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"leading space", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"leading empty line", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"HTTP/0.9", "GET /\r\n\r\n", 400},
      {"HTTP/1.2", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505},
      {"HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
      {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"lower-case version", "GET / http/1.1\r\nHost: a\r\n\r\n", 400},
      {"HTTP/1.0 with host", "GET / HTTP/1.0\r\nHost: a\r\n\r\n", 0},
      {"HTTP/1.0 without host", "GET / HTTP/1.0\r\n\r\n", 0},
      {"HTTP/1.0 with an empty host", "GET / HTTP/1.0\r\nHost:\r\n\r\n", 400},
      {"HTTP/1.0 with two hosts", "GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", 400},
      {"HTTP/1.0 with only an absolute target", "GET http://a/ HTTP/1.0\r\n\r\n", 400},
      {"absolute target, same host", "GET http://A/x HTTP/1.1\r\nHost: a\r\n\r\n", 0},
      {"absolute target by https", "GET https://a/x HTTP/1.1\r\nHost: a\r\n\r\n", 0},
      {"absolute target, other host", "GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"absolute target, no path", "GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"other scheme", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"authority form", "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"asterisk form", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"broken escape", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"escaped NUL", "GET /%00 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"raw UTF-8 target", "GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"raw bar in a path", "GET /a|b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"raw UTF-8 in a query", "GET /?x=\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"fragment", "GET /#x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"broken escape in a query", "GET /?x=%4 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"brackets and a bar in a query", "GET /?include[]=x|y HTTP/1.1\r\nHost: a\r\n\r\n", 0},
      {"two slashes", "GET //a//b HTTP/1.1\r\nHost: a\r\n\r\n", 0},
      {"absolute target with a user", "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"method of 33 letters", std::string(33, 'A') + " / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"TLS hello", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), 400},
  };
}

std::vector<framing_case> header_cases() {
  return {
      {"no host", line + "\r\n", 400},
      {"two hosts", line + "Host: a\r\nHost: a\r\n\r\n", 400},
      {"empty host", line + "Host:\r\n\r\n", 400},
      {"host with a path", line + "Host: a/b\r\n\r\n", 400},
      {"host with user", line + "Host: a@b\r\n\r\n", 400},
      {"folded header", line + "Host: a\r\nX: 1\r\n 2\r\n\r\n", 400},
      {"folded with tab", line + "Host: a\r\nX: 1\r\n\t2\r\n\r\n", 400},
      {"folded first header", line + " Host: a\r\n\r\n", 400},
      {"space before colon", line + "Host : a\r\n\r\n", 400},
      {"no colon", line + "Host: a\r\nnonsense\r\n\r\n", 400},
      {"empty header name", line + "Host: a\r\n: x\r\n\r\n", 400},
      {"name with parenthesis", line + "Host: a\r\nx(y): 1\r\n\r\n", 400},
      {"bare LF in header", line + "Host: a\nX: 1\r\n\r\n", 400},
      {"bare CR in header", line + "Host: a\rX: 1\r\n\r\n", 400},
      {"NUL in header", line + std::string("Host: a\r\nX: \0\r\n\r\n", 16), 400},
      {"control character in value", line + "Host: a\r\nX: \x01\r\n\r\n", 400},
      {"DEL in value", line + "Host: a\r\nX: \x7f\r\n\r\n", 400},
      {"Connection that is no list", line + "Host: a\r\nConnection: a b\r\n\r\n", 400},
      {"other expectation", post("Expect: 200-ok\r\n"), 417},
  };
}

std::vector<framing_case> limit_cases() {
  std::string many;
  for (int i = 0; i < 1500; ++i) many.append("x").append(std::to_string(i)).append(": 1\r\n");
  return {
      {"100 headers", line + "Host: a\r\n" + many.substr(0, many.find("x99:")) + "\r\n", 0},
      {"101 headers", line + "Host: a\r\n" + many.substr(0, many.find("x100:")) + "\r\n", 431},
      {"1500 headers", line + "Host: a\r\n" + many + "\r\n", 431},
      {"long target", std::string("GET /").append(5000, 'a').append(" HTTP/1.1\r\nHost: a\r\n\r\n"), 414},
      {"long header", line + "Host: a\r\nX: " + std::string(20000, 'a') + "\r\n\r\n", 431},
      {"endless line", std::string(20000, 'a'), 431},
  };
}

std::vector<framing_case> framing_cases() {
  std::vector<framing_case> all;
  for (const auto& some : {length_cases(), request_line_cases(), header_cases(), limit_cases()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

TEST(request_head, gives_every_framing_case_its_status) {
  for (const auto& item : framing_cases()) EXPECT_EQ(status_of(parse(item.bytes)), item.status) << item.name;
}

TEST(request_head, decides_alike_whatever_the_pieces_the_bytes_arrive_in) {
  for (const auto& item : framing_cases()) {
    if (item.bytes.size() > 6000) continue; // the long ones add nothing here, and take a second
    int status = 1;
    for (std::size_t size = 0; size <= item.bytes.size() && status == 1; ++size)
      status = status_of(parse(std::string_view(item.bytes).substr(0, size)));
    EXPECT_EQ(status, item.status) << item.name;
  }
}

TEST(request_head, knows_whether_a_body_follows) {
  const auto head = [](const std::string& text) { return std::get<head_complete>(parse(text)).head; };
  EXPECT_TRUE(head(post("Transfer-Encoding: chunked\r\n")).has_body());
  EXPECT_TRUE(head(post("Content-Length: 1\r\n")).has_body());
  EXPECT_FALSE(head(post("Content-Length: 0\r\n")).has_body());
  EXPECT_TRUE(head(post("Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n")).waits_for_continue());
  EXPECT_FALSE(head(post("Transfer-Encoding: chunked\r\n")).waits_for_continue());
  EXPECT_FALSE(head(post("Content-Length: 0\r\nExpect: 100-continue\r\n")).waits_for_continue());
}

TEST(request_head, leaves_the_body_and_the_next_request_alone) {
  const std::string first = post("Content-Length: 5\r\n");
  EXPECT_EQ(std::get<head_complete>(parse(first + "helloGET / HTTP/1.1\r\n")).num_bytes, first.size());
}

/// Beast's own limit for a body is one MiB, and its detection of the end of a chunked body is not reliable.
TEST(request_head, shows_the_parser_no_body) {
  const auto large = post("Content-Length: 99999999999\r\n");
  EXPECT_EQ(std::get<head_complete>(parse(large)).head.content_length, 99999999999U);
  const auto chunked = post("Transfer-Encoding: chunked\r\n");
  EXPECT_EQ(std::get<head_complete>(parse(chunked + std::string("0\n\r\n\0", 5))).num_bytes, chunked.size());
}

TEST(request_head, decodes_the_path_once_and_leaves_plus_alone) {
  const auto result =
      parse("GET /a%252Fb?x+y=c+d&&z=%26%3d&n=%00&empty&a[]=b|c&x+y=2 HTTP/1.1\r\nHost: a\r\n\r\n");
  const auto& head = std::get<head_complete>(result).head;
  EXPECT_EQ(head.path, "/a%2Fb");
  EXPECT_EQ(head.query, "x+y=c+d&&z=%26%3d&n=%00&empty&a[]=b|c&x+y=2");
  EXPECT_EQ(head.query_value("x+y"), "c+d");
  EXPECT_EQ(head.query_value("z"), "&=");
  EXPECT_EQ(head.query_value("empty"), "");
  EXPECT_EQ(head.query_value("a[]"), "b|c");
  EXPECT_FALSE(head.query_value("n"));
}

TEST(request_head, keeps_headers_of_one_name_in_their_order) {
  const auto result = parse(post("X-A: 1\r\nX-B:\t 2 3 \r\nx-a: 4\r\nX-C:\r\n"));
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"host", "localhost"}, {"x-a", "1"}, {"x-b", "2 3"}, {"x-a", "4"}, {"x-c", ""}};
  EXPECT_EQ(std::get<head_complete>(result).head.headers, expected);
}

TEST(request_head, understands_connection_and_upgrade) {
  const auto head = [](const std::string& text) { return std::get<head_complete>(parse(text)).head; };
  EXPECT_FALSE(head(post("Connection: close\r\n")).keep_alive);
  EXPECT_FALSE(head(post("Connection: foo, Close\r\n")).keep_alive);
  EXPECT_FALSE(head(post("Connection: foo\r\nConnection: close\r\n")).keep_alive);
  EXPECT_FALSE(head("GET / HTTP/1.0\r\nHost: a\r\n\r\n").keep_alive);
  EXPECT_TRUE(head("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n").keep_alive);
  const auto upgrades = [&](const std::string& line, const std::string& fields) {
    return head(line + "\r\nHost: a\r\n" + fields + "\r\n").upgrades_to_websocket;
  };
  const std::string both = "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n";
  EXPECT_TRUE(upgrades("GET / HTTP/1.1", both));
  EXPECT_FALSE(upgrades("GET / HTTP/1.1", "Upgrade: websocket\r\n"));
  EXPECT_FALSE(upgrades("HEAD / HTTP/1.1", both)) << "its reply has no body";
  EXPECT_FALSE(upgrades("GET / HTTP/1.0", both)) << "which has no upgrades";
  EXPECT_TRUE(head(post("Expect: 100-continue\r\n")).expects_continue);
}

} // namespace
} // namespace paceline::server

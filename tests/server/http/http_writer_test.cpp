#include "server/http/http_writer.hpp"

#include <gtest/gtest.h>

namespace paceline::server {
namespace {

constexpr std::time_t epoch = 0;

TEST(http_writer, writes_a_reply_with_its_length) {
  http_reply reply;
  reply.body = "{}";
  reply.headers = {{"x-request-id", "r"}};
  const auto text = write_reply(reply, true, false, epoch);
  EXPECT_EQ(
      text.find(
          "HTTP/1.1 200 OK\r\nx-request-id: r\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"),
      0U);
  EXPECT_EQ(text.substr(text.size() - 4 - 2), "\r\n\r\n{}");
  EXPECT_NE(text.find("Connection: keep-alive"), std::string::npos);
  const auto head = write_reply(reply, false, true, epoch);
  EXPECT_NE(head.find("Content-Length: 2"), std::string::npos);
  EXPECT_EQ(head.substr(head.size() - 4), "\r\n\r\n");
}

TEST(http_writer, writes_heads_to_the_byte) {
  http_reply reply;
  reply.status = 204;
  reply.headers = {{"allow", "GET"}, {"vary", "origin"}};
  EXPECT_EQ(write_reply(reply, true, false, epoch),
            "HTTP/1.1 204 No Content\r\nallow: GET\r\nvary: origin\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
            "X-Content-Type-Options: nosniff\r\n"
            "Connection: keep-alive\r\n\r\n");
  reply.status = 304;
  reply.headers = {{"etag", "x"}};
  EXPECT_EQ(write_reply(reply, true, false, epoch),
            "HTTP/1.1 304 Not Modified\r\netag: x\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
            "X-Content-Type-Options: nosniff\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(write_stream_head({{"x-request-id", "r"}}, true, false, epoch),
            "HTTP/1.1 200 OK\r\nx-request-id: r\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
            "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
            "X-Content-Type-Options: nosniff\r\n"
            "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(write_pieces_head({}, false, false, epoch),
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
            "X-Content-Type-Options: nosniff\r\n"
            "Connection: close\r\n\r\n");
}

TEST(http_writer, names_every_status) {
  const std::pair<int, const char*> phrases[] = {{408, "Request Timeout"},
                                                 {417, "Expectation Failed"},
                                                 {429, "Too Many Requests"},
                                                 {503, "Service Unavailable"},
                                                 {505, "HTTP Version Not Supported"}};
  for (const auto& [status, phrase] : phrases) {
    http_reply reply;
    reply.status = status;
    const auto line = "HTTP/1.1 " + std::to_string(status) + " " + phrase + "\r\n";
    EXPECT_TRUE(write_reply(reply, true, false, epoch).starts_with(line)) << line;
  }
}

TEST(http_writer, no_text_can_add_a_header) {
  http_reply reply;
  reply.headers = {{"x-request-id", "a\r\nSet-Cookie: b\x80\x01"}};
  const auto text = write_reply(reply, true, false, epoch);
  EXPECT_NE(text.find("x-request-id: a??Set-Cookie: b??\r\n"), std::string::npos);
}

TEST(http_writer, frames_chunks_and_events) {
  EXPECT_EQ(write_sse("", "{}"), "data: {}\n\n");
  EXPECT_EQ(write_sse("response.created", "{}"), "event: response.created\ndata: {}\n\n");
  EXPECT_EQ(write_chunk(std::string(26, 'a')), "1a\r\n" + std::string(26, 'a') + "\r\n");
  const auto stream = write_stream_head({}, true, true, epoch);
  for (const auto* header :
       {"Transfer-Encoding: chunked\r\n", "Cache-Control: no-store\r\n", "X-Accel-Buffering: no\r\n"})
    EXPECT_NE(stream.find(header), std::string::npos) << header;
  EXPECT_EQ(write_stream_head({}, false, false, epoch).find("Transfer-Encoding"), std::string::npos);
}

} // namespace
} // namespace paceline::server

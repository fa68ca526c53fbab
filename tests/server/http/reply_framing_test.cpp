#include "server/http/reply_framing.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

namespace paceline::server {
namespace {

class letters final : public wire::text_source {
 public:
  std::string next(std::size_t) override { return std::exchange(text_, {}); }
  bool at_end() const noexcept override { return text_.empty(); }
  std::size_t num_bytes() const noexcept override { return text_.size(); }

 private:
  std::string text_ = "abc";
};

reply_framing framing_of(const char* method, bool http_1_0, bool keep_alive = true) {
  request_head head;
  head.method = method;
  head.http_1_0 = http_1_0;
  head.keep_alive = keep_alive;
  reply_framing framing;
  framing.belong_to(head);
  return framing;
}

std::string sent(std::unique_ptr<wire::text_source> source) { return source ? source->next(100) : "none"; }

TEST(reply_framing, a_body_in_pieces_is_chunked_and_the_connection_lives_on) {
  auto framing = framing_of("GET", false);
  framing.begin_pieces();
  EXPECT_EQ(framing.piece("ab"), "2\r\nab\r\n");
  EXPECT_EQ(sent(framing.piece(std::make_unique<letters>())), "3\r\nabc\r\n");
  EXPECT_EQ(framing.end(), last_chunk);
  EXPECT_TRUE(framing.keep_alive());
}

TEST(reply_framing, a_client_of_http_1_0_gets_plain_bytes_up_to_the_close) {
  auto framing = framing_of("GET", true);
  framing.begin_pieces();
  EXPECT_EQ(framing.piece("ab"), "ab");
  EXPECT_EQ(sent(framing.piece(std::make_unique<letters>())), "abc");
  EXPECT_EQ(framing.end(), "");
  EXPECT_FALSE(framing.keep_alive());
}

TEST(reply_framing, a_reply_to_head_has_no_body) {
  auto framing = framing_of("HEAD", false);
  http_reply reply;
  reply.body = "{}";
  const auto bytes = framing.whole(reply, true);
  EXPECT_TRUE(bytes.ends_with("\r\n\r\n")) << bytes;
  EXPECT_NE(bytes.find("Content-Length: 2"), std::string::npos) << bytes;
  framing.begin_pieces();
  EXPECT_EQ(framing.piece("ab"), "");
  EXPECT_EQ(sent(framing.piece(std::make_unique<letters>())), "none");
  EXPECT_EQ(framing.end(), "");
  framing.reset();
  EXPECT_TRUE(framing.whole(reply, true).ends_with("{}")) << "the next head has not been read";
}

TEST(reply_framing, whoever_has_asked_to_close_is_closed) {
  EXPECT_FALSE(framing_of("GET", false, false).keep_alive());
  auto framing = framing_of("GET", false);
  framing.close_after();
  framing.begin_pieces();
  EXPECT_FALSE(framing.keep_alive());
}

} // namespace
} // namespace paceline::server

#include "server/http/long_reply.hpp"

#include <utility>

namespace paceline::server {

namespace {

constexpr std::size_t longest_text = 256U << 10U; ///< a longer reply is sent in pieces

} // namespace

void reply_made(reply_channel& channel, std::unique_ptr<wire::text_source> body, header_list headers) {
  auto first = body->next(longest_text);
  if (!body->at_end()) {
    channel.begin_pieces(headers);
    channel.send(std::move(first));
    channel.send(std::move(body));
    return channel.finish();
  }
  http_reply reply;
  reply.body = std::move(first);
  reply.headers = std::move(headers);
  channel.reply(std::move(reply));
}

} // namespace paceline::server

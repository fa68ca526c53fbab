#pragma once

#include "protocol/wire/text_source.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace paceline::server {

using header_list = std::vector<std::pair<std::string, std::string>>;

/// A whole HTTP reply. Content-Length, Connection and Date are the writer's.
struct http_reply {
  int status = 200;
  std::string body;
  std::shared_ptr<const std::string> shared_body = nullptr; ///< in place of `body`: the same for many clients
  std::string content_type = "application/json";
  header_list headers;
};

inline http_reply json_reply(std::string body) {
  http_reply reply;
  reply.body = std::move(body);
  return reply;
}

/// The client's end of one HTTP request. Exactly one of `reply`, `begin_stream` … `finish` or `begin_pieces`
/// … (`finish` or `abandon`) is called, on the connection's executor.
class reply_channel {
 public:
  virtual ~reply_channel() = default;
  virtual void reply(http_reply reply) = 0;
  /// 200 with an event stream as its body.
  virtual void begin_stream(const header_list& headers) = 0;
  /// 200 with a JSON body that is sent piece by piece, because it is too long to be one text.
  virtual void begin_pieces(const header_list& headers) = 0;
  virtual void send(std::string bytes) = 0;
  /// More of the body, made as the client takes it.
  virtual void send(std::unique_ptr<wire::text_source> bytes) = 0;
  virtual void finish() = 0;
  /// The rest of the body will not come: the connection is cut off, so that the client does not take what it
  /// has for the whole.
  virtual void abandon() = 0;
  /// The exchange keeps so many bytes now for output that it will send when the client takes it: they count
  /// with what waits for the client.
  virtual void keep(std::size_t bytes) = 0;
  /// More bytes wait for the client than one connection may hold; `exchange::on_writable` follows.
  virtual bool congested() const = 0;
};

/// A request being answered, as its connection sees it. All calls on the connection's executor.
class exchange {
 public:
  virtual ~exchange() = default;
  /// The backlog of the channel is gone.
  virtual void on_writable() = 0;
  /// Nothing was sent for a while: the client should see a sign of life.
  virtual void on_idle() = 0;
  /// The server ends now: the last thing the client hears is an error that says so.
  virtual void on_shutdown() = 0;
  /// The client is gone; the channel must not be used any more.
  virtual void on_disconnect() = 0;
};

} // namespace paceline::server

#pragma once

#include "protocol/wire/text_source.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace paceline::server {

using header_list = std::vector<std::pair<std::string, std::string>>;

/// A whole HTTP reply. The writer adds Content-Type, Content-Length, Connection and Date.
struct http_reply {
  int status = 200;
  std::string body;
  /// Used instead of `body`: one text shared by many clients.
  std::shared_ptr<const std::string> shared_body = nullptr;
  std::string content_type = "application/json";
  header_list headers;
};

inline http_reply json_reply(std::string body) {
  http_reply reply;
  reply.body = std::move(body);
  return reply;
}

/// Sends the reply to one HTTP request. All functions are called on the connection's executor. Callers use
/// exactly one of three sequences: `reply`; `begin_stream`, `send`…, `finish`; `begin_pieces`, `send`…, then
/// `finish` or `abandon`.
class reply_channel {
 public:
  virtual ~reply_channel() = default;
  virtual void reply(http_reply reply) = 0;
  /// Sends status 200 with an event stream as its body.
  virtual void begin_stream(const header_list& headers) = 0;
  /// Sends status 200 with a JSON body in pieces, for a body too long to be one text.
  virtual void begin_pieces(const header_list& headers) = 0;
  virtual void send(std::string bytes) = 0;
  /// Sends more of the body, generated as the client reads it.
  virtual void send(std::unique_ptr<wire::text_source> bytes) = 0;
  virtual void finish() = 0;
  /// The rest of the body will not be sent. Aborts the connection, so that the client does not take an
  /// incomplete body for a whole one.
  virtual void abandon() = 0;
  /// Sets how many bytes the exchange holds for output that it will send later. They count as output that
  /// waits for the client.
  virtual void keep(std::size_t bytes) = 0;
  /// True if more bytes wait for the client than one connection may hold. When enough of them have been sent,
  /// `exchange::on_writable` is called.
  virtual bool congested() const = 0;
};

/// A request that is being answered. The connection calls all functions, on its executor.
class exchange {
 public:
  virtual ~exchange() = default;
  /// The channel is no longer congested.
  virtual void on_writable() = 0;
  /// Nothing was sent for some time: the exchange should send a keep-alive.
  virtual void on_idle() = 0;
  /// The server stops now: the exchange must end with an error that says so.
  virtual void on_shutdown() = 0;
  /// The client has gone; the channel must not be used any more.
  virtual void on_disconnect() = 0;
};

} // namespace paceline::server

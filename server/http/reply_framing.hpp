#pragma once

#include "server/http/chunked_source.hpp"
#include "server/http/http_writer.hpp"
#include "server/http/request_head.hpp"

#include <ctime>
#include <memory>
#include <string>
#include <utility>

namespace paceline::server {

/// How replies to the current request are written: with a body or without, in chunks or as plain bytes, and
/// whether another request may follow.
class reply_framing {
 public:
  /// Called before the next request's head is read. Until `belong_to` is called, a reply has a body.
  void reset() noexcept { head_only_ = chunked_ = false; }
  void belong_to(const request_head& head) {
    keep_alive_ = head.keep_alive;
    http_1_0_ = head.http_1_0;
    head_only_ = head.method == "HEAD";
  }
  void close_after() noexcept { keep_alive_ = false; }
  bool keep_alive() const noexcept { return keep_alive_; }
  bool http_1_0() const noexcept { return http_1_0_; }

  /// The bytes of a whole reply, except a shared body.
  std::string whole(const http_reply& reply, bool keep_alive) const {
    return write_reply(reply, keep_alive, head_only_, std::time(nullptr));
  }
  /// A body in pieces begins. It is chunked, or, for an HTTP/1.0 client, ends when the connection is closed.
  void begin_pieces() noexcept { keep_alive_ = (chunked_ = !http_1_0_) && keep_alive_; }
  bool chunked() const noexcept { return chunked_; }
  /// A piece of the body as it is sent; empty or null if the reply has no body (HEAD).
  std::string piece(std::string bytes) const {
    if (head_only_) return {};
    return chunked_ ? write_chunk(bytes) : std::move(bytes);
  }
  std::unique_ptr<wire::text_source> piece(std::unique_ptr<wire::text_source> bytes) const {
    if (head_only_) return nullptr;
    return chunked_ ? in_chunks(std::move(bytes)) : std::move(bytes);
  }
  /// The bytes that end the body; empty if it is not chunked.
  std::string end() const { return chunked_ && !head_only_ ? std::string(last_chunk) : std::string(); }

 private:
  bool keep_alive_ = true;
  bool http_1_0_ = false;
  bool head_only_ = false;
  bool chunked_ = false;
};

} // namespace paceline::server

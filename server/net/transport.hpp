#pragma once

#include "server/net/connection.hpp"

#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <utility>

/// The differences between connections over TCP and over TLS. A connection's `Stream` is tcp_socket or
/// tls_stream. Functions take this stream and are called on the connection's strand.
namespace paceline::server {

using tls_stream = boost::asio::ssl::stream<tcp_socket>;

template <class Stream>
inline constexpr bool is_secure = false;
template <>
inline constexpr bool is_secure<tls_stream> = true;

/// The TCP socket of a stream, for acknowledged_bytes and the like.
inline tcp_socket& socket_of(tcp_socket& stream) noexcept { return stream; }
inline tcp_socket& socket_of(tls_stream& stream) noexcept { return stream.next_layer(); }

/// True if bytes of the client wait to be read.
inline bool has_unread(tcp_socket& stream) {
  boost::system::error_code failed;
  return stream.available(failed) > 0 && !failed;
}
inline bool has_unread(tls_stream& stream) {
  return SSL_has_pending(stream.native_handle()) == 1 || has_unread(stream.next_layer());
}

/// True if the client has closed its side and all its bytes were read. Asio reports this only once, so the
/// socket is asked directly.
inline bool has_ended(tcp_socket& socket) noexcept {
  char next = 0;
  return ::recv(socket.native_handle(), &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/// Calls `done(error)` when requests can be read, or when the TLS handshake has failed.
template <class Done>
void async_open(tcp_socket&, Done done) {
  done(boost::system::error_code());
}
template <class Done>
void async_open(tls_stream& stream, Done done) {
  stream.async_handshake(boost::asio::ssl::stream_base::server, std::move(done));
}

/// True if the handshake failed because the client speaks HTTP.
inline bool is_plain_http(const boost::system::error_code& failure) noexcept {
  return failure.category() == boost::asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned>(failure.value())) == SSL_R_HTTP_REQUEST;
}

/// Over TLS, tells the client that no output follows (close_notify), and calls `done()` when that is written;
/// over TCP only calls `done()`. Reads of the TLS stream may fail from now on; the socket can still be read.
/// Does not wait for the client's close_notify, because the rest of a refused body may come before it.
template <class Done>
void async_end_output(tcp_socket&, Done done) {
  done();
}
template <class Done>
void async_end_output(tls_stream& stream, Done done) {
  // Otherwise Asio calls SSL_shutdown a second time, which waits for the client's close_notify.
  SSL_set_shutdown(stream.native_handle(), SSL_RECEIVED_SHUTDOWN);
  stream.async_shutdown([done = std::move(done)](const boost::system::error_code&) { done(); });
}

} // namespace paceline::server

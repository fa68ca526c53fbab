#pragma once

#include "server/net/body_budget.hpp"
#include "server/net/connection_set.hpp"
#include "server/net/io_runtime.hpp"
#include "server/service.hpp"

#include <boost/asio/ip/tcp.hpp>

#include <memory>

namespace paceline::server {

using tcp_socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, io_strand>;

/// What connections share.
struct connection_context {
  service& requests;
  connection_set& connections;
  io_runtime& runtime;
  std::shared_ptr<body_budget> bodies;
};

/// Serves HTTP on an accepted socket until either side closes. A connection without a place gets a 503, or is
/// closed at once where too many are being told so.
connection_set::place serve_http(const connection_context& context, tcp_socket socket, io_strand strand);

/// Takes over a socket whose upgrade request was admitted: handshake, then the Responses WebSocket mode.
void serve_websocket(const connection_context& context, tcp_socket socket, io_strand strand,
                     const admitted_request& request, std::shared_ptr<connection_set::ticket> ticket);

} // namespace paceline::server

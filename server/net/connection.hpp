#pragma once

#include "server/net/body_budget.hpp"
#include "server/net/connection_set.hpp"
#include "server/net/io_runtime.hpp"
#include "server/net/output_budget.hpp"
#include "server/net/tls_context.hpp"
#include "server/service.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>

#include <memory>

namespace paceline::server {

using tcp_socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, io_strand>;

/// The objects that all connections use.
struct connection_context {
  service& requests;
  connection_set& connections;
  io_runtime& runtime;
  std::shared_ptr<body_budget> bodies;
  std::shared_ptr<output_budget> outputs;
};

/// Registers a connection with the output budget. If the budget takes back the memory of the connection's
/// output, the connection is aborted on its strand, unless it is already gone.
template <class Connection>
std::unique_ptr<output_budget::claim> claim_output(const connection_context& context, const io_strand& strand,
                                                   std::weak_ptr<Connection> who) {
  return context.outputs->open([who, strand, &metrics = context.requests.edge().metrics] {
    ++metrics.outputs_given_up;
    boost::asio::post(strand, [who] {
      if (const auto open = who.lock()) open->abort();
    });
  });
}

/// Serves HTTP on an accepted socket until either side closes. If `tls` is not null, a TLS handshake comes
/// first. Above `server.max_connections`, a silent connection is closed to make room (connection_set). If
/// there is none, the new connection gets status 503, or is closed at once if too many are being refused.
connection_set::place serve_http(const connection_context& context, tcp_socket socket, io_strand strand,
                                 const std::shared_ptr<tls_context>& tls);

/// Takes over a stream (see transport.hpp) whose upgrade request was admitted. Completes the WebSocket
/// handshake, and then serves the Responses WebSocket mode.
template <class Stream>
void serve_websocket(const connection_context& context, Stream stream, io_strand strand,
                     const admitted_request& request, std::shared_ptr<connection_set::ticket> ticket);

} // namespace paceline::server

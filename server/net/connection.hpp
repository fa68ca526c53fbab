#pragma once

#include "server/net/io_runtime.hpp"
#include "server/service.hpp"

#include <boost/asio/ip/tcp.hpp>

#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>

namespace paceline::server {

using tcp_socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, io_strand>;

/// An open connection, as shutdown sees it. Any thread.
class connection {
 public:
  virtual ~connection() = default;
  /// Closes once it is idle; finishes what is in flight.
  virtual void drain() = 0;
  /// Closes now.
  virtual void abort() = 0;
};

/// The connections that are open. Thread-safe.
class connection_set {
 public:
  /// Owned by each connection; its end is the connection's.
  class ticket {
   public:
    explicit ticket(connection_set& set) : set_(set) {}
    ~ticket();
    ticket(const ticket&) = delete;
    ticket& operator=(const ticket&) = delete;

   private:
    friend class connection_set;
    connection_set& set_;
    std::list<std::weak_ptr<connection>>::iterator position_;
  };

  std::shared_ptr<ticket> add(const std::shared_ptr<connection>& added);
  /// The ticket's connection goes on as `successor`, after an upgrade.
  void replace(ticket& ticket, const std::shared_ptr<connection>& successor);
  std::size_t size() const;
  void drain_all();
  void abort_all();
  /// True once none is left.
  bool wait_until_empty(std::chrono::milliseconds timeout);

 private:
  std::vector<std::shared_ptr<connection>> all() const;

  mutable std::mutex mutex_;
  std::condition_variable emptied_;
  std::list<std::weak_ptr<connection>> open_;
};

/// What connections share.
struct connection_context {
  service& requests;
  connection_set& connections;
  io_runtime& runtime;
};

/// Serves HTTP on an accepted socket until either side closes.
void serve_http(const connection_context& context, tcp_socket socket, io_strand strand);

/// Takes over a socket whose upgrade request was admitted: handshake, then the Responses WebSocket mode.
void serve_websocket(const connection_context& context, tcp_socket socket, io_strand strand,
                     const admitted_request& request, std::shared_ptr<connection_set::ticket> ticket);

} // namespace paceline::server

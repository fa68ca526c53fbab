#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

namespace paceline::server {

/// The part of an open connection that the server's shutdown and the connection limit use. All functions can
/// be called on any thread and return at once.
class connection {
 public:
  virtual ~connection() = default;
  /// Requests in flight are finished, then the connection closes. An idle HTTP connection stays open for one
  /// request if its client has sent none yet, or if bytes from the client wait to be read.
  virtual void drain() = 0;
  /// Ends requests in flight with an error that says that the server shuts down, then closes. A connection
  /// without a request in flight may stay open until `abort`.
  virtual void cut_short() = 0;
  /// Closes immediately.
  virtual void abort() = 0;
};

/// The open connections. A connection is called silent until it has sent a whole request. If a new connection
/// would exceed the limit, one silent connection is closed to make room: the one whose last byte arrived
/// first (for a connection without a byte, the time when it was accepted counts). The set does not own the
/// connections. Thread-safe; uses no sockets.
class connection_set {
  struct entry;
  using entries = std::list<std::shared_ptr<entry>>;

 public:
  enum class admission {
    admitted,
    /// Above the limit. The connection may send an error and must then close. It has a ticket and counts for
    /// `max_refusals` instead of `max_connections`.
    refused,
    /// Too many connections are being refused, or the set is closed. The connection has no ticket and must
    /// close without a reply.
    dropped,
  };

  /// A connection's place in the set. The connection owns it and calls its functions on its own strand.
  /// Destroying the ticket ends the work and removes the connection from the set. The set must outlive
  /// the ticket.
  class ticket {
   public:
    ticket(connection_set& set, std::shared_ptr<entry> place);
    ~ticket();
    ticket(const ticket&) = delete;
    ticket& operator=(const ticket&) = delete;

    /// Bytes arrived.
    void note_activity();
    /// A whole request arrived: from now on the connection is not closed to make room.
    void note_request();
    /// True after `note_request`.
    bool has_asked() const noexcept { return has_request_; }
    /// From now until `end_work`, `wait_until_idle` waits for this connection. Calls are not counted: a
    /// second `begin_work` or `end_work` in a row has no effect.
    void begin_work();
    void end_work();

   private:
    friend class connection_set;
    connection_set& set_;
    std::shared_ptr<entry> entry_;
    bool has_request_ = false;
    bool works_ = false;
  };

  /// The result of `add`.
  struct place {
    admission outcome = admission::dropped;
    std::shared_ptr<ticket> held; ///< null if dropped
    bool evicted_another = false; ///< true if a silent connection was closed to make room
  };

  /// `max_refusals`: number of refused connections that may be open at once.
  explicit connection_set(std::size_t max_connections, std::size_t max_refusals = 64)
      : max_connections_(max_connections), max_refusals_(max_refusals) {}

  /// Adds an accepted connection, if necessary in place of a silent one. Keeps only a weak pointer to it.
  place add(const std::shared_ptr<connection>& added);
  /// Closes the silent connection that `add` would close, even if the limit is not reached. For callers that
  /// lack another resource, such as file descriptors. False if no connection is silent.
  bool evict_silent();
  /// From now on the ticket stands for `successor`, another object that has taken over the same socket.
  void replace(ticket& ticket, const std::shared_ptr<connection>& successor);
  /// Number of connections that count for `max_connections`: neither refused nor being closed to make room.
  std::size_t size() const;

  /// Call `drain` (`drain_all`) or `cut_short` (`cut_all_short`) of every connection, refused ones included.
  void drain_all();
  void cut_all_short();
  /// Calls `abort` of every connection. Connections added from now on are dropped.
  void close();
  /// Waits until no connection is between `begin_work` and `end_work`; false after `timeout`.
  bool wait_until_idle(std::chrono::milliseconds timeout);

 private:
  enum class standing {
    silent,  ///< admitted; has not sent a whole request
    settled, ///< admitted; has sent a whole request, so it is never closed to make room
    leaving, ///< being closed to make room, or its ticket is being destroyed; counts for no limit
    refused, ///< counts for `max_refusals`
  };
  struct entry {
    std::weak_ptr<connection> who;
    standing is = standing::silent;
    entries::iterator position;  ///< in `open_`
    entries::iterator in_silent; ///< in `silent_`; valid while `is` is `silent`
  };

  std::vector<std::shared_ptr<connection>> all() const;
  std::shared_ptr<connection> evict_one();
  void count_out(entry& one);

  const std::size_t max_connections_;
  const std::size_t max_refusals_;
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  entries open_;
  entries silent_; ///< longest silence first
  std::size_t num_placed_ = 0;
  std::size_t num_refused_ = 0;
  std::size_t num_working_ = 0;
  bool closed_ = false;
};

} // namespace paceline::server

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

namespace paceline::server {

/// An open connection as seen by the shutdown and the connection limit. Callable on any thread; every call
/// returns at once.
class connection {
 public:
  virtual ~connection() = default;
  /// Closes the connection once it is idle; requests in flight are finished.
  virtual void drain() = 0;
  /// Ends requests in flight with an error that gives the reason, then closes.
  virtual void cut_short() = 0;
  /// Closes immediately.
  virtual void abort() = 0;
};

/// The open connections. If there are too many, a connection that has never sent a whole request is closed to
/// make room: of these, the one that has been silent for longest. Thread-safe; uses no sockets.
class connection_set {
  struct entry;
  using entries = std::list<std::shared_ptr<entry>>;

 public:
  enum class admission {
    admitted,
    refused, ///< above the limit: may send a refusal and close; counted separately
    dropped, ///< too many connections are being refused, or the set is closed: must close without a reply
  };

  /// Owned by a connection; destroying it removes the connection from the set. Used on the connection's
  /// strand.
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
    bool has_asked() const noexcept { return has_request_; }
    /// Begins work for which `wait_until_idle` waits, until `end_work`. Repeated calls have no effect.
    void begin_work();
    void end_work();

   private:
    friend class connection_set;
    connection_set& set_;
    std::shared_ptr<entry> entry_;
    bool has_request_ = false;
    bool works_ = false;
  };

  struct place {
    admission outcome = admission::dropped;
    std::shared_ptr<ticket> held; ///< null if dropped
    bool evicted_another = false;
  };

  explicit connection_set(std::size_t max_connections, std::size_t max_refusals = 64)
      : max_connections_(max_connections), max_refusals_(max_refusals) {}

  /// Adds an accepted connection. Above the limit a silent connection is closed to make room, if there is
  /// one.
  place add(const std::shared_ptr<connection>& added);
  /// Closes the connection that has been silent for longest, because another resource is used up. False if
  /// there is none.
  bool evict_silent();
  /// Replaces the ticket's connection by `successor`, after an upgrade.
  void replace(ticket& ticket, const std::shared_ptr<connection>& successor);
  /// Number of connections that count for the limit: neither refused nor being closed to make room.
  std::size_t size() const;

  void drain_all();
  void cut_all_short();
  /// Closes all connections; those added from now on are dropped.
  void close();
  /// Waits until no connection is between `begin_work` and `end_work`; false after `timeout`.
  bool wait_until_idle(std::chrono::milliseconds timeout);

 private:
  enum class standing { silent, settled, leaving, refused };
  struct entry {
    std::weak_ptr<connection> who;
    standing is = standing::silent;
    entries::iterator position;  ///< in `open_`
    entries::iterator in_silent; ///< while `silent`
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

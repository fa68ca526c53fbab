#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

namespace paceline::server {

/// An open connection, as shutdown and the limit see it. Any thread; every call returns at once.
class connection {
 public:
  virtual ~connection() = default;
  /// Closes once it is idle; finishes what is in flight.
  virtual void drain() = 0;
  /// Ends what is in flight with an error that says why, then closes.
  virtual void cut_short() = 0;
  /// Closes now.
  virtual void abort() = 0;
};

/// The connections that are open, and who gives way when there are too many: of those that have never sent a
/// whole request, the one silent for longest. Thread-safe; knows no sockets.
class connection_set {
  struct entry;
  using entries = std::list<std::shared_ptr<entry>>;

 public:
  enum class admission {
    admitted,
    refused, ///< may say so and close; counts apart
    dropped, ///< too many are being refused already, or the set is closed: close without a word
  };

  /// Owned by each connection; its end is the connection's. Used on the connection's strand.
  class ticket {
   public:
    ticket(connection_set& set, std::shared_ptr<entry> place);
    ~ticket();
    ticket(const ticket&) = delete;
    ticket& operator=(const ticket&) = delete;

    /// Bytes came.
    void note_activity();
    /// A whole request came: the connection gives way no more.
    void note_request();
    bool has_asked() const noexcept { return has_request_; }
    /// Something runs that a drain waits for, until `end_work`. Both may be repeated.
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
    std::shared_ptr<ticket> held; ///< none if dropped
    bool evicted_another = false;
  };

  explicit connection_set(std::size_t max_connections, std::size_t max_refusals = 64)
      : max_connections_(max_connections), max_refusals_(max_refusals) {}

  /// A connection was accepted. One that is over the limit takes the place of a silent one, if there is any.
  place add(const std::shared_ptr<connection>& added);
  /// Makes a silent connection give way, for want of something else than places. False if there is none.
  bool evict_silent();
  /// The ticket's connection goes on as `successor`, after an upgrade.
  void replace(ticket& ticket, const std::shared_ptr<connection>& successor);
  /// Those that hold a place.
  std::size_t size() const;

  void drain_all();
  void cut_all_short();
  /// Closes all, and whatever is added from now on is dropped.
  void close();
  /// True once nothing runs that a drain waits for.
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

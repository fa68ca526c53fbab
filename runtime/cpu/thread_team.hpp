#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

namespace paceline::cpu {

/// Moves the calling thread to core `cpu`. No effect if the machine forbids it (a container's CPU mask).
void pin_this_thread(std::uint32_t cpu) noexcept;

/// A fixed set of threads that run parallel loops for one caller at a time. The caller is member 0 and takes
/// part.
///
/// A loop is divided into chunks that members claim one by one. A member whose core is taken away delays the
/// loop only by its current chunk: the caller waits for claimed chunks, never for threads to arrive. Between
/// loops members spin for some time, then park. Starting a loop allocates nothing.
class thread_team {
 public:
  struct options {
    std::uint32_t num_threads = 1;       ///< the caller included
    std::vector<std::uint32_t> cpus;     ///< cores of members 1, 2, ...; empty: not pinned
    std::chrono::microseconds spin{100}; ///< how long a member spins for the next loop
  };

  /// Throws std::system_error if the machine grants no more threads.
  explicit thread_team(const options& opts);
  /// Must not be called while a loop runs.
  ~thread_team();
  thread_team(const thread_team&) = delete;
  thread_team& operator=(const thread_team&) = delete;

  /// Number of members, the caller included.
  std::uint32_t size() const noexcept { return num_members_; }

  /// Calls fn(chunk, member) once for every chunk below `num_chunks`, in any order and on any member, and
  /// returns when all calls have returned; their writes are then visible. `member` < size() is distinct among
  /// concurrent calls. The first exception of a call is rethrown here; chunks that have not begun by then are
  /// skipped. Not reentrant.
  template <class Fn>
  void parallel_for(std::uint32_t num_chunks, Fn&& fn) {
    using callable = std::remove_reference_t<Fn>;
    run(
        num_chunks,
        [](void* context, std::uint32_t chunk, std::uint32_t member) {
          (*static_cast<callable*>(context))(chunk, member);
        },
        const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
  }

  /// From now on each loop of the caller first calls `fn(context)` if `wanted` is set, so that other work can
  /// run between two loops. `fn` may run loops of its own and must not throw. Must be called before the first
  /// loop. `wanted` must outlive the last loop.
  using pause_fn = void (*)(void* context);
  void set_pause(const std::atomic<bool>& wanted, pause_fn fn, void* context) noexcept {
    pause_wanted_ = &wanted;
    pause_fn_ = fn;
    pause_context_ = context;
  }

  /// An errand: work that one member does during the caller's next loops, to save the caller's time. Must not
  /// throw.
  using errand_fn = void (*)(void* context) noexcept;

  /// Leaves `fn(context)` to a member that is awake, and returns at once. Returns false, without leaving the
  /// errand, if all other members are parked: waking one would take as long as the errand saves. At most one
  /// errand at a time: call `finish_errand` first.
  bool leave_errand(errand_fn fn, void* context);

  /// Returns once the last errand has been run; runs it on the calling thread if no member has begun it. The
  /// caller's next loop also runs the errand at its end if no member has begun it.
  void finish_errand();

 private:
  enum class errand_phase : std::uint32_t { none, left, running };
  using chunk_fn = void (*)(void* context, std::uint32_t chunk, std::uint32_t member);

  void stop() noexcept;
  void run(std::uint32_t num_chunks, chunk_fn fn, void* context);
  void work(std::uint32_t member);
  std::uint32_t claim_and_run(std::uint32_t generation, std::uint32_t member);
  void report_failure() noexcept;
  void await_chunks(std::uint32_t num_chunks);
  std::uint64_t await_loop(std::uint64_t seen);
  bool run_errand() noexcept;

  const std::uint32_t num_members_;
  const std::chrono::microseconds spin_;

  // The loop in progress: generation << 32 | next chunk to claim. A generation is closed (next chunk =
  // `closed`) while the three fields below change, so a successful claim has read the fields of its own
  // generation.
  alignas(64) std::atomic<std::uint64_t> ticket_;
  std::atomic<chunk_fn> fn_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<std::uint32_t> num_chunks_{0};

  alignas(64) std::atomic<std::uint32_t> num_done_{0}; ///< chunks of this loop that have finished
  std::atomic<std::uint32_t> num_parked_{0};
  std::atomic<bool> caller_parked_{false};
  std::atomic<bool> stopping_{false};
  bool running_ = false; ///< caller only

  const std::atomic<bool>* pause_wanted_ = nullptr; ///< caller only, as the two below
  pause_fn pause_fn_ = nullptr;
  void* pause_context_ = nullptr;

  std::atomic<errand_phase> errand_{errand_phase::none};
  /// Written by the caller, with its context, before the phase becomes `left`.
  errand_fn errand_fn_ = nullptr;
  void* errand_context_ = nullptr;

  std::mutex mutex_; ///< guards parking and failure_
  std::condition_variable loop_started_;
  std::condition_variable chunks_done_;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

} // namespace paceline::cpu

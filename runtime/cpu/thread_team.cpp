#include "runtime/cpu/thread_team.hpp"

#include "runtime/base/check.hpp"
#include "runtime/cpu/spin_wait.hpp"

#include <pthread.h>
#include <sched.h>

namespace paceline::cpu {

namespace {

constexpr std::uint32_t closed = 0xffffffffU;
constexpr std::uint32_t last_chunk_count = closed - 1;

constexpr std::uint64_t make_ticket(std::uint32_t generation, std::uint32_t next) noexcept {
  return std::uint64_t{generation} << 32 | next;
}
constexpr std::uint32_t generation_of(std::uint64_t ticket) noexcept {
  return static_cast<std::uint32_t>(ticket >> 32);
}
constexpr std::uint32_t next_of(std::uint64_t ticket) noexcept { return static_cast<std::uint32_t>(ticket); }

} // namespace

void pin_this_thread(std::uint32_t cpu) noexcept {
  if (cpu >= CPU_SETSIZE) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

thread_team::thread_team(const options& opts)
    : num_members_(opts.num_threads), spin_(opts.spin), ticket_(make_ticket(0, closed)) {
  PACELINE_CHECK(opts.num_threads >= 1, "a team has at least one member");
  threads_.reserve(num_members_ - 1);
  try {
    for (std::uint32_t member = 1; member < num_members_; ++member) {
      std::optional<std::uint32_t> cpu;
      if (member - 1 < opts.cpus.size()) cpu = opts.cpus[member - 1];
      threads_.emplace_back([this, member, cpu] {
        if (cpu) pin_this_thread(*cpu);
        work(member);
      });
    }
  } catch (...) { // the machine grants no more threads
    stop();
    throw;
  }
}

thread_team::~thread_team() { stop(); }

void thread_team::stop() noexcept {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  loop_started_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void thread_team::run(std::uint32_t num_chunks, chunk_fn fn, void* context) {
  if (num_chunks == 0) return;
  PACELINE_CHECK(!running_, "a parallel loop was started inside another of the same team");
  PACELINE_CHECK(num_chunks <= last_chunk_count, "too many chunks: " + std::to_string(num_chunks));
  if (pause_wanted_ != nullptr && pause_wanted_->load(std::memory_order_relaxed)) pause_fn_(pause_context_);
  struct running_scope {
    bool& running;
    explicit running_scope(bool& r) : running(r) { running = true; }
    ~running_scope() { running = false; }
  } scope(running_);
  if (num_members_ == 1 || num_chunks == 1) {
    for (std::uint32_t chunk = 0; chunk < num_chunks; ++chunk) fn(context, chunk, 0);
    run_errand();
    return;
  }

  const std::uint32_t generation = generation_of(ticket_.load(std::memory_order_relaxed)) + 1;
  ticket_.store(make_ticket(generation, closed), std::memory_order_relaxed);
  fn_.store(fn, std::memory_order_release);
  context_.store(context, std::memory_order_release);
  num_chunks_.store(num_chunks, std::memory_order_release);
  num_done_.store(0, std::memory_order_relaxed);
  // The store is sequentially consistent. A parking member first counts itself and then looks at the ticket,
  // so either this thread sees the member or the member sees the ticket.
  ticket_.store(make_ticket(generation, 0), std::memory_order_seq_cst);
  if (num_parked_.load(std::memory_order_seq_cst) > 0) {
    { std::lock_guard lock(mutex_); }
    loop_started_.notify_all();
  }

  const std::uint32_t own = claim_and_run(generation, 0);
  if (num_done_.fetch_add(own, std::memory_order_acq_rel) + own != num_chunks) await_chunks(num_chunks);
  run_errand(); // the members had no time for it

  std::exception_ptr failure;
  {
    // There is no contention here, and a late failure can only be seen now.
    std::lock_guard lock(mutex_);
    failure.swap(failure_);
  }
  if (failure) std::rethrow_exception(failure);
}

bool thread_team::leave_errand(errand_fn fn, void* context) {
  PACELINE_CHECK(errand_.load(std::memory_order_acquire) == errand_phase::none, "an errand is under way");
  if (num_members_ == 1) return false;
  errand_fn_ = fn;
  errand_context_ = context;
  // The store is sequentially consistent. A parking member first counts itself and then looks at the errand,
  // so either this thread sees the member or the member sees the errand.
  errand_.store(errand_phase::left, std::memory_order_seq_cst);
  if (num_parked_.load(std::memory_order_seq_cst) + 1 < num_members_) return true;
  auto left = errand_phase::left;
  // A member that was about to park runs it.
  return !errand_.compare_exchange_strong(left, errand_phase::none);
}

void thread_team::finish_errand() {
  while (!run_errand() && errand_.load(std::memory_order_acquire) != errand_phase::none)
    spin_until(spin_, [&] { return errand_.load(std::memory_order_acquire) == errand_phase::none; });
}

/// Returns true if this call ran the errand.
bool thread_team::run_errand() noexcept {
  auto left = errand_phase::left;
  if (errand_.load(std::memory_order_relaxed) != left) return false;
  if (!errand_.compare_exchange_strong(left, errand_phase::running)) return false;
  errand_fn_(errand_context_);
  errand_.store(errand_phase::none, std::memory_order_release);
  return true;
}

/// Claims and runs chunks of `generation` until none is left. Returns the number of chunks that this call
/// accounts for.
std::uint32_t thread_team::claim_and_run(std::uint32_t generation, std::uint32_t member) {
  std::uint32_t num_claimed = 0;
  for (;;) {
    std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
    if (generation_of(ticket) != generation) return num_claimed;
    const std::uint32_t chunk = next_of(ticket);
    // Acquire: a value of a later loop implies that this loop was closed, and then the exchange below fails.
    const std::uint32_t num_chunks = num_chunks_.load(std::memory_order_acquire);
    const chunk_fn fn = fn_.load(std::memory_order_acquire);
    void* const context = context_.load(std::memory_order_acquire);
    if (chunk == closed || chunk >= num_chunks) return num_claimed;
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
    ++num_claimed;
    try {
      fn(context, chunk, member);
    } catch (...) {
      report_failure();
      // Unclaimed chunks are skipped: this member claims all of them and accounts for them.
      std::uint64_t rest = ticket_.load(std::memory_order_acquire);
      while (!ticket_.compare_exchange_weak(rest, make_ticket(generation, num_chunks),
                                            std::memory_order_acq_rel)) {
      }
      num_claimed += num_chunks - next_of(rest);
    }
  }
}

void thread_team::report_failure() noexcept {
  std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::current_exception();
}

/// Waits, as the caller, for chunks that other members have claimed.
void thread_team::await_chunks(std::uint32_t num_chunks) {
  const auto done = [&] { return num_done_.load(std::memory_order_acquire) == num_chunks; };
  if (spin_until(spin_, done)) return;
  std::unique_lock lock(mutex_);
  caller_parked_.store(true, std::memory_order_seq_cst);
  chunks_done_.wait(lock, [&] { return num_done_.load(std::memory_order_seq_cst) == num_chunks; });
  caller_parked_.store(false, std::memory_order_relaxed);
}

/// Waits, as a member, for a ticket whose generation differs from that of `seen`. Returns it, or `seen` if
/// the team ends.
std::uint64_t thread_team::await_loop(std::uint64_t seen) {
  std::uint64_t ticket = seen;
  const auto started = [&] {
    ticket = ticket_.load(std::memory_order_seq_cst);
    return next_of(ticket) != closed && generation_of(ticket) != generation_of(seen);
  };
  const auto errand = [&] { return errand_.load(std::memory_order_seq_cst) == errand_phase::left; };
  const auto ready = [&] { return stopping_.load(std::memory_order_relaxed) || errand() || started(); };
  for (;;) {
    if (!spin_until(spin_, ready)) {
      std::unique_lock lock(mutex_);
      num_parked_.fetch_add(1, std::memory_order_seq_cst);
      loop_started_.wait(lock, ready);
      num_parked_.fetch_sub(1, std::memory_order_seq_cst);
    }
    if (stopping_.load(std::memory_order_relaxed)) return seen;
    run_errand();
    if (started()) return ticket;
  }
}

void thread_team::work(std::uint32_t member) {
  std::uint64_t seen = make_ticket(0, closed);
  for (;;) {
    const std::uint64_t ticket = await_loop(seen);
    if (ticket == seen) return;
    seen = ticket;
    const std::uint32_t num_claimed = claim_and_run(generation_of(ticket), member);
    if (num_claimed == 0) continue; // too late: the caller does not count this member
    // The caller may return, and start the next loop, once the count is complete.
    num_done_.fetch_add(num_claimed, std::memory_order_seq_cst);
    if (caller_parked_.load(std::memory_order_seq_cst)) {
      { std::lock_guard lock(mutex_); }
      chunks_done_.notify_one();
    }
  }
}

} // namespace paceline::cpu

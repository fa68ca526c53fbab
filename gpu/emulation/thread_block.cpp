#include "gpu/emulation/thread_block.hpp"

#include "gpu/emulation/copies.hpp"
#include "gpu/emulation/fibre.hpp"
#include "runtime/base/check.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace paceline::gpu::emulation {
namespace {

constexpr std::uint32_t warp_size = 32;

/// SplitMix64, for orders only; the quality of randomness does not matter.
class order_source {
 public:
  explicit order_source(std::uint64_t seed) : state_(seed) {}
  std::uint32_t below(std::uint32_t bound) {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    z = (z ^ (z >> 31)) >> 32;
    return static_cast<std::uint32_t>(z * bound >> 32);
  }
  void shuffle(std::vector<std::uint32_t>& values) {
    for (std::size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[below(static_cast<std::uint32_t>(i))]);
  }

 private:
  std::uint64_t state_;
};

/// Runs one block after the other, thread by thread; one block of several that run together.
///
/// A fibre runs threads that have not begun, one after the other, until one of them waits; a kernel without
/// barriers needs one fibre and no switches. Invariant: every thread is in `fresh_`, runnable, waiting for
/// its warp, its block, the grid or the preceding kernel, or done. Runnable and waiting threads have a fibre
/// of their own.
class block_runner {
 public:
  block_runner(const grid& shape, std::uint64_t seed, const std::function<void()>& thread)
      : shape_(shape), order_(seed), thread_(thread), threads_(shape.threads),
        states_(shape.threads, state::fresh), shared_(shape.shared_bytes / sizeof(chunk) + 1),
        shown_(2 * shape.threads), laid_out_(2 * shape.threads * shared_slot_bytes) {
    PACELINE_CHECK(shape.threads > 0 && shape.threads % warp_size == 0,
                   "a block of " + std::to_string(shape.threads) + " threads is not whole warps");
  }

  void run(std::uint32_t x, std::uint32_t y) {
    begin(x, y);
    run_to_end();
  }
  void run_to_end() {
    if (!go_on()) throw barrier_fault("a block waits for a grid that does not run together");
  }

  void begin(std::uint32_t x, std::uint32_t y) {
    std::memset(shared_.data(), 0xff, shared_.size() * sizeof(chunk));
    fresh_.resize(shape_.threads);
    std::iota(fresh_.begin(), fresh_.end(), 0U);
    order_.shuffle(fresh_);
    for (auto& t : threads_) t.start_again();
    std::ranges::fill(states_, state::fresh);
    place_ = {0, shape_.threads, x, y, shared_.data()};
    num_done_ = 0;
  }
  /// From here on, a thread that returns without waiting for the preceding kernel is an error. While
  /// `is_ahead`, the waiting threads continue to wait.
  void take_turns(bool is_ahead) {
    must_wait_ = true;
    is_ahead_ = is_ahead;
    for (std::uint32_t t = 0; t < shape_.threads && !is_ahead; ++t) release(t, t + 1, state::at_turn);
  }
  /// True once all threads have returned. False if all wait for the grid, or none can continue without the
  /// preceding kernel.
  bool go_on() {
    while (num_done_ < shape_.threads) {
      if (!step() && !release_warps() && !release_block()) {
        if (is_at_grid() || std::ranges::count(states_, state::at_turn) > 0) return false;
        throw barrier_fault(describe());
      }
      if (failure_) std::rethrow_exception(failure_);
    }
    return true;
  }
  bool is_at_grid() const { return std::ranges::count(states_, state::at_grid) == shape_.threads; }
  void release_from_grid() { release(0, shape_.threads, state::at_grid); }

  enum class state : std::uint8_t { fresh, runnable, at_warp, at_block, at_grid, at_turn, done };

  void wait(state until) {
    const std::uint32_t self = place_.index;
    states_[self] = until;
    fibre* const own = current_;
    threads_[self].own = own;
    own->suspend();
    place_.index = self;
  }

  void wait_for_previous() {
    threads_[place_.index].has_waited = true;
    if (is_ahead_) wait(state::at_turn);
  }

  /// The values of the warp's lanes.
  const float* show(float value) {
    const std::uint32_t self = place_.index;
    // Each thread has two slots. One thread may be at its next call while another still reads the
    // previous one, but no thread can be two calls ahead.
    float* const slots = shown_.data() + (threads_[self].num_shown++ % 2) * shape_.threads;
    slots[self] = value;
    wait(state::at_warp);
    return slots + self / warp_size * warp_size;
  }

  /// Like `show`, with separate slots.
  const std::byte* lay_out(const void* value, std::size_t num_bytes) {
    PACELINE_CHECK(num_bytes <= shared_slot_bytes, "a lane lays out too much");
    const std::uint32_t self = place_.index;
    std::byte* const slots =
        laid_out_.data() + (threads_[self].num_shown++ % 2) * shape_.threads * shared_slot_bytes;
    std::memcpy(slots + self * shared_slot_bytes, value, num_bytes);
    wait(state::at_warp);
    return slots + self / warp_size * warp_size * shared_slot_bytes;
  }

  void begin_copy(std::byte* to, const std::byte* from, std::size_t num_bytes) {
    const auto* const begin = reinterpret_cast<std::byte*>(shared_.data());
    const auto address = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at); };
    if (address(to) < address(begin) || address(to) + num_bytes > address(begin) + shape_.shared_bytes)
      throw copy_fault("a copy to outside the block's shared memory");
    if ((address(to) | address(from)) % num_bytes != 0) throw copy_fault("a copy that is not aligned");
    PACELINE_CHECK(num_bytes <= copies_under_way::most_bytes, "a copy is too large");
    threads_[place_.index].copies.begin(to, from, num_bytes, is_ahead_);
  }
  copies_under_way& copies() { return threads_[place_.index].copies; }

  const thread_place& place() const noexcept { return place_; }

 private:
  struct emulated_thread {
    emulation::fibre* own = nullptr;
    std::uint32_t num_shown = 0;
    bool has_waited = false; ///< for the preceding kernel
    copies_under_way copies;

    void start_again() {
      copies.clear();
      *this = {.copies = std::move(copies)};
    }
  };
  struct alignas(16) chunk {
    std::byte bytes[16];
  };

  /// Starts or continues one thread. False if none can run.
  bool step() {
    const auto choices = static_cast<std::uint32_t>(runnable_.size()) + (fresh_.empty() ? 0 : 1);
    if (choices == 0) return false;
    const std::uint32_t choice = order_.below(choices);
    if (choice == runnable_.size()) {
      current_ = idle_fibre();
    } else {
      std::swap(runnable_[choice], runnable_.back());
      current_ = threads_[runnable_.back()].own;
      runnable_.pop_back();
    }
    current_->resume();
    return true;
  }

  fibre* idle_fibre() {
    if (!idle_.empty()) {
      fibre* const taken = idle_.back();
      idle_.pop_back();
      return taken;
    }
    fibres_.push_back(std::make_unique<fibre>([this] { run_fresh(); }));
    return fibres_.back().get();
  }

  /// Body of every fibre.
  void run_fresh() {
    while (!fresh_.empty() && !failure_) {
      place_.index = fresh_.back();
      fresh_.pop_back();
      try {
        thread_();
        if (must_wait_ && !threads_[place_.index].has_waited)
          throw barrier_fault("a thread returns that has not waited for the kernel ahead");
      } catch (...) {
        failure_ = std::current_exception();
      }
      states_[place_.index] = state::done;
      ++num_done_;
    }
    idle_.push_back(current_);
  }

  bool release(std::uint32_t begin, std::uint32_t end, state waiting) {
    for (std::uint32_t t = begin; t < end; ++t)
      if (states_[t] != waiting) return false;
    for (std::uint32_t t = begin; t < end; ++t) {
      states_[t] = state::runnable;
      runnable_.push_back(t);
    }
    return true;
  }
  bool release_warps() {
    bool any = false;
    for (std::uint32_t begin = 0; begin < shape_.threads; begin += warp_size)
      any |= release(begin, begin + warp_size, state::at_warp);
    return any;
  }
  bool release_block() { return release(0, shape_.threads, state::at_block); }

  std::string describe() const {
    const auto count = [&](state s) { return std::to_string(std::ranges::count(states_, s)); };
    return "block (" + std::to_string(place_.block_x) + ", " + std::to_string(place_.block_y) +
           "): " + count(state::at_block) + " threads wait for the block, " + count(state::at_warp) +
           " for their warps, " + count(state::at_grid) + " for the grid, and " + count(state::done) +
           " have returned";
  }

  const grid shape_;
  order_source order_;
  const std::function<void()>& thread_;
  std::vector<emulated_thread> threads_;
  std::vector<state> states_; ///< by thread; apart, because each round of barriers looks at all of them
  std::vector<chunk> shared_;
  std::vector<float> shown_;
  std::vector<std::byte> laid_out_;
  std::vector<std::uint32_t> fresh_;
  std::vector<std::uint32_t> runnable_;
  std::vector<std::unique_ptr<fibre>> fibres_;
  std::vector<fibre*> idle_;
  fibre* current_ = nullptr;
  thread_place place_;
  std::uint32_t num_done_ = 0;
  bool must_wait_ = false; ///< every thread must wait for the preceding kernel
  bool is_ahead_ = false;  ///< the preceding kernel is still running
  std::exception_ptr failure_;
};

thread_local block_runner* current_block = nullptr;

/// Makes `runner` the receiver of kernels' calls during its lifetime.
class block_scope {
 public:
  explicit block_scope(block_runner& runner) {
    PACELINE_CHECK(current_block == nullptr, "an emulated thread may not launch a grid");
    current_block = &runner;
  }
  ~block_scope() { current_block = nullptr; }
  block_scope(const block_scope&) = delete;
  block_scope& operator=(const block_scope&) = delete;
};

} // namespace

struct grid_run::impl {
  const grid shape;
  const std::uint64_t seed;
  const std::function<void()> thread;
  order_source order;
  std::vector<std::uint32_t> blocks;
  std::map<std::uint32_t, std::unique_ptr<block_runner>> started; ///< those of `blocks` that started early
  bool is_early = false;
};

grid_run::grid_run(const grid& shape, std::uint64_t seed, std::function<void()> thread)
    : impl_(new impl{shape, seed, std::move(thread), order_source(seed ^ 0x5bd1e995U), {}, {}}) {
  impl_->blocks.resize(std::size_t{shape.blocks_x} * shape.blocks_y);
  std::iota(impl_->blocks.begin(), impl_->blocks.end(), 0U);
  impl_->order.shuffle(impl_->blocks);
}

grid_run::~grid_run() = default;

void grid_run::start_early(std::uint32_t num_blocks) {
  impl& self = *impl_;
  self.is_early = true;
  for (std::size_t i = 0; i < self.blocks.size() && i < num_blocks; ++i) {
    const std::uint32_t b = self.blocks[i];
    auto runner = std::make_unique<block_runner>(self.shape, self.seed + i + 1, self.thread);
    runner->begin(b % self.shape.blocks_x, b / self.shape.blocks_x);
    runner->take_turns(true);
    const block_scope scope(*runner);
    runner->go_on();
    self.started.emplace(b, std::move(runner));
  }
  self.order.shuffle(self.blocks); // those that have started end anywhere among the others
}

void grid_run::finish() {
  impl& self = *impl_;
  block_runner rest(self.shape, self.seed, self.thread);
  if (self.is_early) rest.take_turns(false);
  for (const std::uint32_t b : self.blocks) {
    const auto started = self.started.extract(b);
    if (started.empty()) {
      const block_scope scope(rest);
      rest.run(b % self.shape.blocks_x, b / self.shape.blocks_x);
    } else {
      const block_scope scope(*started.mapped());
      started.mapped()->take_turns(false);
      started.mapped()->run_to_end();
    }
  }
}

void run_grid(const grid& shape, std::uint64_t seed, const std::function<void()>& thread) {
  grid_run(shape, seed, thread).finish();
}

void run_together(const grid& shape, std::uint64_t seed, const std::function<void()>& thread) {
  PACELINE_CHECK(current_block == nullptr && shape.blocks_y == 1, "an emulated thread may not launch a grid");
  order_source order(seed);
  std::vector<std::unique_ptr<block_runner>> blocks;
  for (std::uint32_t b = 0; b < shape.blocks_x; ++b) {
    blocks.push_back(std::make_unique<block_runner>(shape, seed + b, thread));
    blocks.back()->begin(b, 0);
  }
  struct scope {
    ~scope() { current_block = nullptr; }
  } guard;
  std::vector<std::uint32_t> turns(shape.blocks_x);
  std::iota(turns.begin(), turns.end(), 0U);
  for (;;) {
    order.shuffle(turns);
    std::uint32_t num_done = 0;
    for (const std::uint32_t b : turns) {
      current_block = blocks[b].get();
      if (current_block->go_on()) ++num_done;
    }
    if (num_done == shape.blocks_x) return;
    if (num_done > 0) throw barrier_fault("blocks wait for a grid of which others have returned");
    for (const auto& block : blocks) block->release_from_grid();
  }
}

const thread_place& this_thread() noexcept { return current_block->place(); }
void wait_for_block() { current_block->wait(block_runner::state::at_block); }
void wait_for_warp() { current_block->wait(block_runner::state::at_warp); }
void wait_for_previous() { current_block->wait_for_previous(); }
void wait_for_grid() { current_block->wait(block_runner::state::at_grid); }
const float* show_to_warp(float value) { return current_block->show(value); }
const std::byte* lay_out_in_warp(const void* value, std::size_t num_bytes) {
  return current_block->lay_out(value, num_bytes);
}
void begin_copy(std::byte* to, const std::byte* from, std::size_t num_bytes) {
  current_block->begin_copy(to, from, num_bytes);
}
void end_copy_group() { current_block->copies().end_group(); }
void wait_for_copies(std::size_t rest) { current_block->copies().wait(rest); }

} // namespace paceline::gpu::emulation

#include "gpu/emulation/fibre.hpp"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

// Sanitizers only understand swapcontext, which makes a system call for the mask of signals in each switch.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PACELINE_SWAPCONTEXT
#include <ucontext.h>
#else
#include <boost/context/detail/fcontext.hpp>
#endif

namespace paceline::gpu::emulation {
namespace {

/// Kernels have small frames; AddressSanitizer makes them larger.
constexpr std::size_t stack_bytes = std::size_t{256} << 10;

/// What the sanitizers must know of a stack.
struct stack_notes {
  void* fake_stack = nullptr; ///< AddressSanitizer's
  const void* bottom = nullptr;
  std::size_t size = 0;
  void* fibre = nullptr; ///< ThreadSanitizer's

  /// Called just before a switch to the stack that `to` describes.
  void leave([[maybe_unused]] const stack_notes& to) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fake_stack, to.bottom, to.size);
#elif defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(to.fibre, 0);
#endif
  }
  /// Called just after a switch to this stack; fills in the stack that was left.
  void arrive([[maybe_unused]] stack_notes& from) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, &from.bottom, &from.size);
#endif
  }
};

/// Where a stack begins below its end. Each switch touches the top of a stack; tops at the same place of
/// their pages would displace each other from the cache.
std::size_t next_colour() {
  static std::atomic<std::size_t> number = 0;
  return number++ % 61 * 1088;
}

/// The point at which one side of a switch continues.
#ifdef PACELINE_SWAPCONTEXT
using continuation = ucontext_t;
#else
using continuation = boost::context::detail::fcontext_t;

/// What a switch tells the side that it continues.
struct switch_notes {
  continuation* from;
  fibre::impl* to;
};
#endif

} // namespace

/// A stack and what continues on it.
struct fibre::impl {
  std::function<void()> body;
  bool is_at_rest = true; ///< the body has returned, or was never called
  void* stack = nullptr;
  continuation inside{};
  continuation outside{};
  stack_notes inside_notes;
  stack_notes outside_notes;

  impl();
  ~impl();

  void resume();
  void suspend();

 private:
  void run();
#ifdef PACELINE_SWAPCONTEXT
  /// makecontext passes ints, so the address comes in two halves.
  static void enter(unsigned high, unsigned low);
#else
  static void enter(boost::context::detail::transfer_t arrived);
#endif
  /// Saves the state in `from` and continues at `to`; returns after a switch back.
  void switch_stacks(continuation& from, continuation& to);
};

fibre::impl::impl() {
  stack = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) throw std::bad_alloc();
  inside_notes.bottom = stack;
  inside_notes.size = stack_bytes;
#if defined(__SANITIZE_THREAD__)
  inside_notes.fibre = __tsan_create_fiber(0);
#endif
  const std::size_t size = stack_bytes - next_colour();
#ifdef PACELINE_SWAPCONTEXT
  getcontext(&inside);
  inside.uc_stack.ss_sp = stack;
  inside.uc_stack.ss_size = size;
  const auto address = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&inside, reinterpret_cast<void (*)()>(static_cast<void (*)(unsigned, unsigned)>(&impl::enter)),
              2, static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
#else
  inside = boost::context::detail::make_fcontext(static_cast<std::byte*>(stack) + size, size, &impl::enter);
#endif
}

fibre::impl::~impl() {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(inside_notes.fibre);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack, stack_bytes); // frames that were abandoned
#endif
  munmap(stack, stack_bytes);
}

#ifdef PACELINE_SWAPCONTEXT

void fibre::impl::switch_stacks(continuation& from, continuation& to) { swapcontext(&from, &to); }

void fibre::impl::enter(unsigned high, unsigned low) {
  reinterpret_cast<impl*>(std::uintptr_t{high} << 32 | low)->run();
}

#else

void fibre::impl::switch_stacks(continuation& from, continuation& to) {
  switch_notes notes{&from, this};
  const auto arrived = boost::context::detail::jump_fcontext(to, &notes);
  *static_cast<switch_notes*>(arrived.data)->from = arrived.fctx;
}

void fibre::impl::enter(boost::context::detail::transfer_t arrived) {
  const auto& notes = *static_cast<switch_notes*>(arrived.data);
  *notes.from = arrived.fctx;
  notes.to->run();
}

#endif

void fibre::impl::run() {
  inside_notes.arrive(outside_notes);
  for (;;) {
    body();
    is_at_rest = true;
    suspend();
  }
}

void fibre::impl::resume() {
#if defined(__SANITIZE_THREAD__)
  outside_notes.fibre = __tsan_get_current_fiber();
#endif
  is_at_rest = false;
  outside_notes.leave(inside_notes);
  switch_stacks(outside, inside);
  outside_notes.arrive(inside_notes);
}

void fibre::impl::suspend() {
  inside_notes.leave(outside_notes);
  switch_stacks(inside, outside);
  inside_notes.arrive(outside_notes);
}

namespace {

/// Fibres at rest, for the next launches of the thread. A launch has as many fibres as a block has threads,
/// and to make one takes several system calls.
thread_local std::vector<std::unique_ptr<fibre::impl>> at_rest;

} // namespace

fibre::fibre(std::function<void()> body) {
  if (at_rest.empty()) {
    impl_ = std::make_unique<impl>();
  } else {
    impl_ = std::move(at_rest.back());
    at_rest.pop_back();
  }
  impl_->body = std::move(body);
}

fibre::~fibre() {
  if (impl_->is_at_rest) at_rest.push_back(std::move(impl_));
}

void fibre::resume() { impl_->resume(); }
void fibre::suspend() { impl_->suspend(); }

} // namespace paceline::gpu::emulation

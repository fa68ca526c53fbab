#include "gpu/emulation/fibre.hpp"

#include <sys/mman.h>

#include <csetjmp>
#include <ucontext.h>

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

namespace paceline::gpu::emulation {
namespace {

/// Kernels have small frames; AddressSanitizer makes them larger.
constexpr std::size_t stack_bytes = std::size_t{256} << 10;

/// Stacks of finished fibres, for the next ones of the thread: a launch has as many fibres as a block has
/// threads.
class stack_cache {
 public:
  ~stack_cache() {
    for (void* const stack : free_) munmap(stack, stack_bytes);
  }
  void* take() {
    if (!free_.empty()) {
      void* const taken = free_.back();
      free_.pop_back();
      return taken;
    }
    void* const made = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) throw std::bad_alloc();
    return made;
  }
  void give_back(void* stack) {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(stack, stack_bytes); // frames that were abandoned
#endif
    free_.push_back(stack);
  }

 private:
  std::vector<void*> free_;
};

thread_local stack_cache stacks;

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

/// The point at which one side of a switch continues.
struct continuation {
  ucontext_t begin{}; ///< of a fibre that has not started
  std::jmp_buf rest{};
  bool is_entered = false;
};

/// Saves the state in `from` and continues at `to`; returns after a switch back. Jumps are used because
/// swapcontext makes a system call for the signal mask each time, which would take most of a test's time.
/// Sanitizers only understand swapcontext.
void switch_stacks(continuation& from, continuation& to) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  swapcontext(&from.begin, &to.begin);
#else
  from.is_entered = true;
  if (_setjmp(from.rest) != 0) return;
  if (to.is_entered) _longjmp(to.rest, 1);
  setcontext(&to.begin);
#endif
}

} // namespace

struct fibre::impl {
  std::function<void()> body;
  void* stack = nullptr;
  continuation inside;
  continuation outside;
  stack_notes inside_notes;
  stack_notes outside_notes;

  /// makecontext passes ints, so the address comes in two halves.
  static void enter(unsigned high, unsigned low) {
    auto* const self = reinterpret_cast<impl*>(std::uintptr_t{high} << 32 | low);
    self->inside_notes.arrive(self->outside_notes);
    self->body();
  }
};

fibre::fibre(std::function<void()> body) : impl_(std::make_unique<impl>()) {
  impl_->body = std::move(body);
  impl_->stack = stacks.take();
  impl_->inside_notes.bottom = impl_->stack;
  impl_->inside_notes.size = stack_bytes;
#if defined(__SANITIZE_THREAD__)
  impl_->inside_notes.fibre = __tsan_create_fiber(0);
#endif
  ucontext_t& begin = impl_->inside.begin;
  getcontext(&begin);
  begin.uc_stack.ss_sp = impl_->stack;
  begin.uc_stack.ss_size = stack_bytes;
  const auto address = reinterpret_cast<std::uintptr_t>(impl_.get());
  makecontext(&begin, reinterpret_cast<void (*)()>(&impl::enter), 2, static_cast<unsigned>(address >> 32),
              static_cast<unsigned>(address));
}

fibre::~fibre() {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(impl_->inside_notes.fibre);
#endif
  stacks.give_back(impl_->stack);
}

void fibre::resume() {
#if defined(__SANITIZE_THREAD__)
  impl_->outside_notes.fibre = __tsan_get_current_fiber();
#endif
  impl_->outside_notes.leave(impl_->inside_notes);
  switch_stacks(impl_->outside, impl_->inside);
  impl_->outside_notes.arrive(impl_->inside_notes);
}

void fibre::suspend() {
  impl_->inside_notes.leave(impl_->outside_notes);
  switch_stacks(impl_->inside, impl_->outside);
  impl_->inside_notes.arrive(impl_->outside_notes);
}

} // namespace paceline::gpu::emulation

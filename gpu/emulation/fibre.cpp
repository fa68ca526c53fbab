#include "gpu/emulation/fibre.hpp"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace paceline::gpu::emulation {
namespace {

/// Kernels have small frames; AddressSanitizer makes them larger.
constexpr std::size_t stack_bytes = std::size_t{256} << 10;

/// Stacks of fibres that have ended, for the next ones of the thread: a launch has as many fibres as a block threads.
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
    __asan_unpoison_memory_region(stack, stack_bytes); // frames that were dropped
#endif
    free_.push_back(stack);
  }

 private:
  std::vector<void*> free_;
};

thread_local stack_cache stacks;

/// The sanitizer's idea of which stack is in use, for one direction of a switch.
struct stack_notes {
  void* fake_stack = nullptr;
  const void* bottom = nullptr;
  std::size_t size = 0;

  /// Just before a switch from here to the stack that `to` describes.
  void leave([[maybe_unused]] const stack_notes& to) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fake_stack, to.bottom, to.size);
#endif
  }
  /// Just after a switch to here; learns of the stack that was left.
  void arrive([[maybe_unused]] stack_notes& from) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, &from.bottom, &from.size);
#endif
  }
};

} // namespace

struct fibre::impl {
  std::function<void()> body;
  void* stack = nullptr;
  ucontext_t inside{};
  ucontext_t outside{};
  stack_notes inside_notes;
  stack_notes outside_notes;

  /// makecontext passes ints: the address comes in two halves.
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
  getcontext(&impl_->inside);
  impl_->inside.uc_stack.ss_sp = impl_->stack;
  impl_->inside.uc_stack.ss_size = stack_bytes;
  const auto address = reinterpret_cast<std::uintptr_t>(impl_.get());
  makecontext(&impl_->inside, reinterpret_cast<void (*)()>(&impl::enter), 2, static_cast<unsigned>(address >> 32),
              static_cast<unsigned>(address));
}

fibre::~fibre() { stacks.give_back(impl_->stack); }

void fibre::resume() {
  impl_->outside_notes.leave(impl_->inside_notes);
  swapcontext(&impl_->outside, &impl_->inside);
  impl_->outside_notes.arrive(impl_->inside_notes);
}

void fibre::suspend() {
  impl_->inside_notes.leave(impl_->outside_notes);
  swapcontext(&impl_->inside, &impl_->outside);
  impl_->inside_notes.arrive(impl_->outside_notes);
}

} // namespace paceline::gpu::emulation

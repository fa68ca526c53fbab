#include "gpu/emulation/device_memory.hpp"

#include "runtime/base/check.hpp"

#include <sys/mman.h>

#include <cstring>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define PACELINE_POISON(at, size) __asan_poison_memory_region(at, size)
#define PACELINE_UNPOISON(at, size) __asan_unpoison_memory_region(at, size)
#else
#define PACELINE_POISON(at, size) static_cast<void>(at)
#define PACELINE_UNPOISON(at, size) static_cast<void>(at)
#endif

namespace paceline::gpu::emulation {
namespace {

constexpr std::size_t arena_bytes = std::size_t{2} << 30; ///< of addresses; pages are committed when written
constexpr std::size_t alignment = 256;

} // namespace

device_memory::device_memory() {
  void* const at = mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  arena_ = static_cast<std::byte*>(at);
  madvise(at, arena_bytes, MADV_HUGEPAGE); // opening and closing take a time for each page
  PACELINE_POISON(arena_, arena_bytes);
}

device_memory::~device_memory() {
  PACELINE_UNPOISON(arena_, arena_bytes);
  munmap(arena_, arena_bytes);
}

void* device_memory::allocate(std::size_t num_bytes) {
  if (num_bytes > arena_bytes / 2) return nullptr;
  const std::size_t room =
      (num_bytes / alignment + 2) * alignment; // at least one unit lies between two pieces
  std::byte* piece = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = released_.find(room); found != released_.end()) {
      piece = found->second;
      released_.erase(found);
    } else if (arena_bytes - used_ >= room) {
      piece = arena_ + used_;
      used_ += room;
    } else {
      return nullptr;
    }
    pieces_[piece] = room;
  }
  PACELINE_UNPOISON(piece, num_bytes);
  const access open_now(*this);
  std::memset(piece, 0xff, num_bytes);
  return piece;
}

void device_memory::release(void* piece) {
  std::lock_guard lock(mutex_);
  const auto found = pieces_.find(static_cast<std::byte*>(piece));
  PACELINE_CHECK(found != pieces_.end(), "released memory is not the device's");
  PACELINE_POISON(found->first, found->second);
  released_.emplace(found->second, found->first);
  pieces_.erase(found);
}

void device_memory::open() {
  std::lock_guard lock(mutex_);
  if (num_open_++ == 0) mprotect(arena_, arena_bytes, PROT_READ | PROT_WRITE);
}

void device_memory::close() {
  std::lock_guard lock(mutex_);
  if (--num_open_ == 0) mprotect(arena_, arena_bytes, PROT_NONE);
}

} // namespace paceline::gpu::emulation

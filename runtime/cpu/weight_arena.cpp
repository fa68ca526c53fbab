#include "runtime/cpu/weight_arena.hpp"

#include "runtime/cpu/huge_pages.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <limits>

namespace paceline::cpu {

namespace {

constexpr std::size_t slab_bytes = 16 * huge_page_bytes;
constexpr std::size_t alignment = 64;

/// `size` bytes, a multiple of huge pages, zeroed by the system and allocated page by page as they are
/// written.
std::shared_ptr<std::byte[]> map_slab(std::size_t size) {
  const std::size_t mapped = size + huge_page_bytes; // from which an aligned part is used
  void* const at = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(at);
  const std::size_t skipped =
      (huge_page_bytes - reinterpret_cast<std::uintptr_t>(begin) % huge_page_bytes) % huge_page_bytes;
  madvise(begin + skipped, size, MADV_HUGEPAGE); // advice; a failure is harmless
  return {begin + skipped, [begin, mapped](std::byte*) { munmap(begin, mapped); }};
}

} // namespace

std::shared_ptr<std::byte[]> weight_arena::allocate(std::size_t size) {
  if (size > std::numeric_limits<std::size_t>::max() / 2) return nullptr;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  std::lock_guard lock(mutex_);
  if (!slab_ || slab_size_ - used_ < rounded) {
    const std::size_t wanted = rounded <= slab_bytes / 2
                                   ? slab_bytes
                                   : (rounded + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
    auto slab = map_slab(wanted);
    if (!slab) return nullptr;
    // Large enough for a slab of its own; the current slab remains in use.
    if (wanted != slab_bytes) return slab;
    slab_ = std::move(slab);
    slab_size_ = wanted;
    used_ = 0;
  }
  std::shared_ptr<std::byte[]> piece(slab_, slab_.get() + used_);
  used_ += rounded;
  return piece;
}

} // namespace paceline::cpu

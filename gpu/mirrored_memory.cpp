#include "gpu/mirrored_memory.hpp"

#include <algorithm>
#include <utility>

namespace paceline::gpu {
namespace {

constexpr std::size_t least_slab_bytes = std::size_t{1} << 18;
/// Large, so that pieces keep their places when those before them change their sizes a little: addresses are
/// parameters of kernels, and a graph applies only with the same parameters (gpu/step_queue.hpp).
constexpr std::size_t alignment = 4096;

} // namespace

std::unique_ptr<mirrored_pool::slab> mirrored_pool::take(std::size_t num_bytes) {
  std::size_t number = 0;
  {
    std::lock_guard lock(mutex_);
    const auto fits = [&](const auto& s) { return s->host.size_bytes() >= num_bytes; };
    if (const auto found = std::ranges::find_if(free_, fits); found != free_.end()) {
      auto taken = std::move(*found);
      free_.erase(found);
      return taken;
    }
    number = num_made_++;
  }
  const std::size_t size = std::max(num_bytes, least_slab_bytes);
  auto made = std::make_unique<slab>();
  made->number = number;
  made->host = memory(on_, memory_kind::pinned, size);
  made->device = memory(on_, memory_kind::on_device, size);
  return made;
}

void mirrored_pool::give_back(std::vector<std::unique_ptr<slab>> slabs) {
  std::lock_guard lock(mutex_);
  for (auto& s : slabs) {
    s->used = 0;
    free_.push_back(std::move(s));
  }
  // The smallest that fits is used, so that a pass's inputs do not occupy the space of its logits. Of several
  // it is always the same one: a program gets the same addresses whenever the same number are under way.
  std::ranges::sort(free_, {}, [](const auto& s) { return std::pair(s->host.size_bytes(), s->number); });
}

mirrored_piece mirrored_arena::take(std::size_t num_bytes) {
  const std::size_t size = (num_bytes + alignment - 1) / alignment * alignment;
  if (slabs_.empty() || slabs_.back()->host.size_bytes() - slabs_.back()->used < size)
    slabs_.push_back(pool_.take(size));
  auto& slab = *slabs_.back();
  const std::size_t at = slab.used;
  slab.used += size;
  return {slab.host.data() + at, slab.device.data() + at};
}

} // namespace paceline::gpu

#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

namespace paceline::cpu {

/// Memory for weights, cut from large slabs in huge pages: a pass over a model walks through hundreds of
/// matrices, and with small pages the processor waits for address translations longer than for the data.
/// Matrices lie one behind the other, so small ones waste no huge pages. Thread-safe.
class weight_arena {
 public:
  /// `size` zeroed bytes, aligned to a cache line; null when there is no memory. A slab is freed with the
  /// last piece of it, which may be after the arena.
  std::shared_ptr<std::byte[]> allocate(std::size_t size);

 private:
  std::mutex mutex_;
  std::shared_ptr<std::byte[]> slab_; ///< the one that pieces are cut from
  std::size_t slab_size_ = 0;
  std::size_t used_ = 0;
};

} // namespace paceline::cpu

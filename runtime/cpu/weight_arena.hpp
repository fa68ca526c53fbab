#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

namespace paceline::cpu {

/// Memory for weights, allocated from large slabs in huge pages. A pass over a model reads hundreds of
/// matrices, and with small pages the processor waits longer for address translation than for the data.
/// Small matrices share slabs, so they waste no huge pages. Thread-safe.
class weight_arena {
 public:
  /// `size` zeroed bytes, aligned to a cache line; null if there is no memory. The result keeps its slab in
  /// memory, even after the arena is destroyed.
  std::shared_ptr<std::byte[]> allocate(std::size_t size);

 private:
  std::mutex mutex_;
  std::shared_ptr<std::byte[]> slab_; ///< the slab from which pieces are allocated
  std::size_t slab_size_ = 0;
  std::size_t used_ = 0;
};

} // namespace paceline::cpu

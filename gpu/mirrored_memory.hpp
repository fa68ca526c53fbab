#pragma once

#include "gpu/owners.hpp"

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace paceline::gpu {

/// A piece of pinned host memory and a piece of device memory of the same size. Data that is copied from one
/// to the other has the same offset in both.
struct mirrored_piece {
  std::byte* host = nullptr;
  std::byte* device = nullptr;
};

/// Large pieces of mirrored memory (slabs) that are reused, because pinning takes milliseconds. Thread-safe.
class mirrored_pool {
 public:
  struct slab {
    memory host;
    memory device;
    std::size_t used = 0;
    std::size_t number = 0; ///< slabs are numbered in the order in which they were made
  };

  explicit mirrored_pool(const device_context& on) : on_(on) {}

  /// The smallest unused slab with room for `num_bytes`, or a new one. Throws cuda_failure.
  std::unique_ptr<slab> take(std::size_t num_bytes);
  void give_back(std::vector<std::unique_ptr<slab>> slabs);

 private:
  const device_context& on_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<slab>> free_;
  std::size_t num_made_ = 0;
};

/// The mirrored memory used by one program. Copies enqueued by the program use it later, so the caller of
/// `release` may return the slabs to the pool only when the device has completed these copies.
class mirrored_arena {
 public:
  explicit mirrored_arena(mirrored_pool& pool) : pool_(pool) {}

  /// Room for `num_bytes`, aligned to 4096 bytes. Throws cuda_failure.
  mirrored_piece take(std::size_t num_bytes);

  /// Returns all slabs in use; the arena is empty afterwards.
  std::vector<std::unique_ptr<mirrored_pool::slab>> release() { return std::exchange(slabs_, {}); }

 private:
  mirrored_pool& pool_;
  std::vector<std::unique_ptr<mirrored_pool::slab>> slabs_; ///< the last one may have room
};

} // namespace paceline::gpu

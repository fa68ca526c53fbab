#pragma once

#include "gpu/owners.hpp"

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace paceline::gpu {

/// The same number of bytes on the host, pinned, and on the device: what a program sends to its ops or has
/// brought back lies in both at the same offset.
struct mirrored_piece {
  std::byte* host = nullptr;
  std::byte* device = nullptr;
};

/// Large pieces of mirrored memory, used over and over: pinning takes milliseconds. Thread-safe.
class mirrored_pool {
 public:
  struct slab {
    memory host;
    memory device;
    std::size_t used = 0;
  };

  explicit mirrored_pool(const device_context& on) : on_(on) {}

  /// An unused slab with room for `num_bytes`.
  std::unique_ptr<slab> take(std::size_t num_bytes);
  void give_back(std::vector<std::unique_ptr<slab>> slabs);

 private:
  const device_context& on_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<slab>> free_;
};

/// What one program takes of a pool. It is written and read by copies that happen later: it goes back, by
/// `release`, when the device has done all of them.
class mirrored_arena {
 public:
  explicit mirrored_arena(mirrored_pool& pool) : pool_(pool) {}

  /// Room for `num_bytes`, aligned to 64 bytes.
  mirrored_piece take(std::size_t num_bytes);

  /// All slabs that have been taken; the arena is empty afterwards.
  std::vector<std::unique_ptr<mirrored_pool::slab>> release() { return std::exchange(slabs_, {}); }

 private:
  mirrored_pool& pool_;
  std::vector<std::unique_ptr<mirrored_pool::slab>> slabs_; ///< the last one has room
};

} // namespace paceline::gpu

#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace paceline::gpu::emulation {

/// Memory that only the emulated device may access. Its pages are protected while no command runs, so that
/// host code that accesses a device address crashes, as with a GPU. (While one thread runs a command, the
/// pages are accessible to all threads.) With AddressSanitizer, accesses outside the allocated pieces are
/// also detected during commands. Thread-safe.
class device_memory {
 public:
  device_memory();
  ~device_memory();
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;

  /// A piece aligned to 256 bytes, with all bits set (NaN in floats). Null if there is no more memory.
  void* allocate(std::size_t num_bytes);
  void release(void* piece);

  /// Keeps the memory accessible during its lifetime.
  class access {
   public:
    explicit access(device_memory& memory) : memory_(memory) { memory_.open(); }
    ~access() { memory_.close(); }
    access(const access&) = delete;
    access& operator=(const access&) = delete;

   private:
    device_memory& memory_;
  };

 private:
  void open();
  void close();

  std::mutex mutex_;
  std::byte* arena_ = nullptr;
  std::size_t used_ = 0;
  std::size_t num_open_ = 0;
  std::map<std::byte*, std::size_t> pieces_;        ///< capacity of each, by address
  std::multimap<std::size_t, std::byte*> released_; ///< by capacity
};

} // namespace paceline::gpu::emulation

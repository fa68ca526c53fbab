#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace paceline::gpu::emulation {

/// Memory that only the emulated device may touch: outside commands its pages are closed, so that a host that
/// reads or writes an address of the device's crashes as it would with a GPU. (While one thread carries out a
/// command they are open to all.) With AddressSanitizer, accesses beside the pieces are found in commands,
/// too. Thread-safe.
class device_memory {
 public:
  device_memory();
  ~device_memory();
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;

  /// A piece aligned to 256 bytes, full of ones: NaN. Null where there is no more.
  void* allocate(std::size_t num_bytes);
  void release(void* piece);

  /// Keeps the memory open while it lives.
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
  std::map<std::byte*, std::size_t> pieces_;        ///< room of each, by address
  std::multimap<std::size_t, std::byte*> released_; ///< by room
};

} // namespace paceline::gpu::emulation

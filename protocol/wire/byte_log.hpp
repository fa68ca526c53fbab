#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace paceline::wire {

/// A compact sequence of numbers, read in the order in which they were written. It grows by blocks, without
/// copying, so that growing never needs twice the memory.
class byte_log {
 public:
  static constexpr std::size_t block_bytes = 8U << 10U;

  void put_byte(std::uint8_t byte) {
    if (size_ % block_bytes == 0) blocks_.push_back(std::make_unique<block>());
    (*blocks_.back())[size_++ % block_bytes] = byte;
  }
  /// Appends `number` as a variable-length integer: seven bits in each byte, low bits first.
  void put(std::uint64_t number) {
    for (; number >= 0x80; number >>= 7U) put_byte(static_cast<std::uint8_t>(number) | 0x80U);
    put_byte(static_cast<std::uint8_t>(number));
  }
  void put_float(float number) {
    const auto bits = std::bit_cast<std::uint32_t>(number);
    for (unsigned shift = 0; shift < 32; shift += 8) put_byte(static_cast<std::uint8_t>(bits >> shift));
  }
  std::size_t size() const noexcept { return size_; }

  /// Reads from the beginning; the log must outlive it. The caller must not read more than was written.
  class cursor {
   public:
    explicit cursor(const byte_log& log) : log_(&log) {}
    bool at_end() const noexcept { return at_ == log_->size_; }
    std::uint8_t byte() {
      const auto value = (*log_->blocks_[at_ / block_bytes])[at_ % block_bytes];
      ++at_;
      return value;
    }
    std::uint64_t number() {
      std::uint64_t value = 0;
      for (unsigned shift = 0;; shift += 7) {
        const auto next = byte();
        value |= std::uint64_t{next & 0x7fU} << shift;
        if (next < 0x80) return value;
      }
    }
    float real() {
      std::uint32_t bits = 0;
      for (unsigned shift = 0; shift < 32; shift += 8) bits |= std::uint32_t{byte()} << shift;
      return std::bit_cast<float>(bits);
    }

   private:
    const byte_log* log_;
    std::size_t at_ = 0;
  };

 private:
  using block = std::array<std::uint8_t, block_bytes>;
  std::vector<std::unique_ptr<block>> blocks_;
  std::size_t size_ = 0;
};

} // namespace paceline::wire

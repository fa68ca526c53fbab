#include "runtime/cpu/host_buffer.hpp"

#include "runtime/base/check.hpp"
#include "runtime/cpu/huge_pages.hpp"

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace paceline::cpu {
namespace {

std::align_val_t alignment_of(std::uint64_t num_bytes) {
  return std::align_val_t{num_bytes < huge_page_bytes ? 64 : huge_page_bytes};
}

class host_buffer final : public device::buffer {
 public:
  explicit host_buffer(std::uint64_t num_bytes)
      : data_(static_cast<std::byte*>(::operator new(num_bytes, alignment_of(num_bytes)))),
        size_bytes_(num_bytes) {
    // The blocks of a KV pool are scattered, and with small pages each one costs an address translation. Only
    // whole huge pages are requested, so that the tail does not use one. A failure is harmless.
    if (const auto whole = num_bytes / huge_page_bytes * huge_page_bytes; whole > 0)
      madvise(data_, whole, MADV_HUGEPAGE);
  }
  ~host_buffer() override { ::operator delete(data_, alignment_of(size_bytes_)); }
  host_buffer(const host_buffer&) = delete;
  host_buffer& operator=(const host_buffer&) = delete;

  std::byte* data() noexcept override { return data_; }
  std::uint64_t size_bytes() const noexcept override { return size_bytes_; }

  void upload(std::uint64_t offset, std::span<const std::byte> bytes) override {
    check_range(offset, bytes.size());
    if (!bytes.empty()) std::memcpy(data_ + offset, bytes.data(), bytes.size());
  }
  void fill(std::uint64_t offset, std::uint64_t num_bytes, std::byte value) override {
    check_range(offset, num_bytes);
    std::memset(data_ + offset, std::to_integer<int>(value), num_bytes);
  }

 private:
  void check_range(std::uint64_t offset, std::uint64_t num_bytes) const {
    PACELINE_CHECK(offset <= size_bytes_ && num_bytes <= size_bytes_ - offset, "range outside the buffer");
  }

  std::byte* data_;
  std::uint64_t size_bytes_;
};

} // namespace

std::unique_ptr<device::buffer> make_host_buffer(std::uint64_t num_bytes) {
  return std::make_unique<host_buffer>(num_bytes);
}

} // namespace paceline::cpu

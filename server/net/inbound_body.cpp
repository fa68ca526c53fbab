#include "server/net/inbound_body.hpp"

#include <sys/mman.h>

#include <cstring>
#include <utility>

namespace paceline::server {

/// Memory whose pages are allocated when they are written, together with the claim that counts it.
struct inbound_body::pages {
  explicit pages(std::size_t size)
      : num_bytes(size), data(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    // Without this, one byte in each of a thousand bodies would use a thousand huge pages.
    if (exists()) madvise(data, num_bytes, MADV_NOHUGEPAGE);
  }
  ~pages() {
    if (exists()) munmap(data, num_bytes);
  }
  pages(const pages&) = delete;
  pages& operator=(const pages&) = delete;
  bool exists() const noexcept { return data != MAP_FAILED; }
  char* bytes() const noexcept { return static_cast<char*>(data); }

  /// Frees the memory before its owner learns that it must give the memory up. Later writes of the owner are
  /// lost, and so is the body.
  void empty() const noexcept { madvise(data, num_bytes, MADV_DONTNEED); }

  std::shared_ptr<body_budget::claim> claim; // first member, so that it is counted until the memory is freed
  const std::size_t num_bytes;
  void* const data;
};

bool inbound_body::append(std::string_view bytes) {
  const auto size = size_ + bytes.size();
  if (size <= body_budget::free_bytes) {
    small_.append(bytes);
    size_ = size;
    return true;
  }
  if (!large_) {
    large_ = std::make_shared<pages>(max_bytes_);
    large_->claim =
        budget_->open(tenant_, [weak = std::weak_ptr(large_), give_way = std::exchange(give_way_, {})] {
          if (const auto kept = weak.lock(); kept && kept->exists()) kept->empty();
          give_way();
        });
    if (!large_->exists()) return false;
    std::memcpy(large_->bytes(), small_.data(), small_.size());
    small_ = {};
  }
  if (!large_->claim->hold(size)) return false;
  std::memcpy(large_->bytes() + size_, bytes.data(), bytes.size());
  size_ = size;
  return true;
}

bool inbound_body::has_to_give_way() const noexcept { return large_ && large_->claim->revoked(); }

bool inbound_body::take(request_body& whole) {
  if (large_) {
    if (!large_->claim->complete()) return false;
    whole = {std::string_view(large_->bytes(), size_), large_, large_->claim};
    large_.reset();
  } else {
    whole = {std::exchange(small_, {})};
  }
  size_ = 0;
  return true;
}

} // namespace paceline::server

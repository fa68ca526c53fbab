#include "runtime/model/loader/partial_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace paceline::model {

namespace {

/// Closes a descriptor at the end of a scope, unless it was released.
class descriptor {
 public:
  explicit descriptor(int fd) noexcept : fd_(fd) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const noexcept { return fd_; }
  int take() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

error failure(errc code, const std::filesystem::path& path, const std::string& what) {
  return error(code, path.string() + ": " + what);
}

} // namespace

expected<std::shared_ptr<const partial_file>> partial_file::open(const std::filesystem::path& path) {
  // Non-blocking, so that a pipe is refused below instead of blocking here until it has a writer.
  descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) {
    const int reason = errno;
    const auto code = reason == ENOENT || reason == ENOTDIR ? errc::not_found : errc::invalid_file;
    return failure(code, path, std::string("cannot open: ") + std::strerror(reason));
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0)
    return failure(errc::invalid_file, path, std::string("cannot stat: ") + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return failure(errc::invalid_file, path, "not a regular file");
  if (info.st_size <= 0) return failure(errc::invalid_file, path, "file is empty");
  const auto size = static_cast<std::size_t>(info.st_size);
  // The mapping reserves no memory, because a file that is larger than the memory is packed in parts.
  void* address =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    return failure(errc::resource_exhausted, path, std::string("no addresses: ") + std::strerror(errno));
  // Parts end inside huge pages, which would stay in memory after a part was released.
  ::madvise(address, size, MADV_NOHUGEPAGE); // advice
  return std::shared_ptr<const partial_file>(
      new partial_file(path, fd.take(), std::span(static_cast<std::byte*>(address), size)));
}

bool partial_file::holds(std::span<const std::byte> part) const noexcept {
  const std::less_equal<const std::byte*> at_most;
  return at_most(bytes_.data(), part.data()) &&
         at_most(part.data() + part.size(), bytes_.data() + bytes_.size());
}

expected<void> partial_file::read(std::span<const std::byte> part) const {
  if (!holds(part)) return {};
  std::size_t at = static_cast<std::size_t>(part.data() - bytes_.data());
  for (const std::size_t end = at + part.size(); at < end;) {
    const ssize_t num_read = ::pread(fd_, bytes_.data() + at, end - at, static_cast<off_t>(at));
    if (num_read < 0 && errno == EINTR) continue;
    if (num_read < 0) {
      const int reason = errno;
      return failure(errc::invalid_file, path_, std::string("cannot read: ") + std::strerror(reason));
    }
    if (num_read == 0)
      return failure(errc::invalid_file, path_,
                     "was cut short while it was read: it had " + std::to_string(bytes_.size()) +
                         " bytes, and ends before byte " + std::to_string(at));
    at += static_cast<std::size_t>(num_read);
  }
  return {};
}

void partial_file::release(std::span<const std::byte> part) const noexcept {
  if (!holds(part)) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(part.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(part.data() + part.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED); // advice
}

partial_file::~partial_file() {
  ::munmap(bytes_.data(), bytes_.size());
  ::close(fd_);
}

expected<bool> are_equal(const file_bytes& a, const file_bytes& b) {
  if (a.data.size() != b.data.size()) return false;
  constexpr std::size_t chunk = std::size_t{4} << 20U;
  for (std::size_t at = 0; at < a.data.size(); at += chunk) {
    const std::size_t size = std::min(chunk, a.data.size() - at);
    const auto in_a = a.data.subspan(at, size), in_b = b.data.subspan(at, size);
    if (a.from)
      if (auto read = a.from->read(in_a); !read) return std::move(read).error();
    if (b.from)
      if (auto read = b.from->read(in_b); !read) return std::move(read).error();
    const bool equal = std::memcmp(in_a.data(), in_b.data(), size) == 0;
    if (a.from) a.from->release(in_a);
    if (b.from) b.from->release(in_b);
    if (!equal) return false;
  }
  return true;
}

} // namespace paceline::model

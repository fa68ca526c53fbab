#include "runtime/model/loader/mapped_file.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace paceline::model {

namespace {

/// Closes a descriptor at the end of a scope; the mapping outlives it.
class descriptor {
 public:
  explicit descriptor(int fd) noexcept : fd_(fd) {}
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

error failure(errc code, const std::filesystem::path& path, const std::string& what) {
  return error(code, path.string() + ": " + what);
}

} // namespace

expected<std::shared_ptr<const mapped_file>> mapped_file::open(const std::filesystem::path& path) {
  // Non-blocking, so that a pipe under the name is refused below instead of waiting for its writer here.
  const descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
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
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED)
    return failure(errc::resource_exhausted, path, std::string("cannot map: ") + std::strerror(errno));
  return std::shared_ptr<const mapped_file>(
      new mapped_file(std::span(static_cast<const std::byte*>(address), size)));
}

void mapped_file::release(std::span<const std::byte> part) const noexcept {
  if (part.data() < bytes_.data() || part.data() + part.size() > bytes_.data() + bytes_.size()) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(part.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(part.data() + part.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED); // advice
}

mapped_file::~mapped_file() { ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

} // namespace paceline::model

#include "apps/chat/history_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace paceline::apps {

namespace fs = std::filesystem;

namespace {

/// Holds the file for this process, and creates it if it is missing. Where the file system has no locks, or
/// the file cannot be opened, nothing is held.
class file_lock {
 public:
  explicit file_lock(const fs::path& file) {
    do {
      release();
      file_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
      while (file_ >= 0 && flock(file_, LOCK_EX) != 0 && errno == EINTR) {
      }
    } while (file_ >= 0 && !is_at(file)); // it was replaced during the wait
  }
  ~file_lock() { release(); }
  file_lock(const file_lock&) = delete;
  file_lock& operator=(const file_lock&) = delete;

 private:
  bool is_at(const fs::path& file) const {
    struct stat held {};
    struct stat named {};
    return fstat(file_, &held) == 0 && stat(file.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
           held.st_ino == named.st_ino;
  }
  void release() {
    if (file_ >= 0) close(file_);
    file_ = -1;
  }

  int file_ = -1;
};

error failure_of(const fs::path& file, int number) {
  return {errc::invalid_file, file.string() + ": " + std::strerror(number)};
}

/// Writes the entries to a new file beside `file`, which then takes its place. If the disk is full, the old
/// file is still there.
expected<void> replace(History* entries, const fs::path& file) {
  std::error_code failed;
  const auto place = fs::canonical(file, failed); // a link stays a link
  if (failed) return failure_of(file, failed.value());
  std::string fresh = place.string() + ".XXXXXX";
  const int descriptor = mkostemp(fresh.data(), O_CLOEXEC); // readable by its owner only
  std::FILE* out = descriptor < 0 ? nullptr : fdopen(descriptor, "w");
  if (out == nullptr) return failure_of(file, errno);
  HistEvent event{};
  const bool is_written = history(entries, &event, H_SAVE_FP, out) >= 0 && std::fflush(out) == 0 &&
                          std::ferror(out) == 0; // an earlier write may have failed
  const int reason = errno;
  const bool is_closed = std::fclose(out) == 0;
  if (is_written && is_closed && std::rename(fresh.c_str(), place.c_str()) == 0) return {};
  const auto why = failure_of(file, is_written ? errno : reason);
  unlink(fresh.c_str());
  return why;
}

} // namespace

void prepare_history(History* entries) {
  constexpr int most_entries = 1000;
  HistEvent event{};
  history(entries, &event, H_SETSIZE, most_entries);
  history(entries, &event, H_SETUNIQUE, 1);
}

expected<void> load_history(History* entries, const fs::path& file) {
  HistEvent event{};
  if (history(entries, &event, H_LOAD, file.c_str()) >= 0) return {};
  std::error_code failed;
  if (!fs::exists(file, failed) || (fs::file_size(file, failed) == 0 && !failed)) return {};
  return error{errc::invalid_file, file.string() + " is no history that can be read"};
}

expected<void> add_to_history(const fs::path& file, const std::string& message) {
  std::error_code failed;
  fs::create_directories(file.parent_path(), failed);
  const file_lock held(file);
  const std::unique_ptr<History, decltype(&history_end)> all(history_init(), history_end);
  HistEvent event{};
  prepare_history(all.get());
  if (auto loaded = load_history(all.get(), file); !loaded) return loaded;
  history(all.get(), &event, H_ENTER, message.c_str());
  return replace(all.get(), file);
}

fs::path history_file() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/')
    return fs::path(state) / "paceline" / "chat_history";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  return fs::path(home) / ".local" / "state" / "paceline" / "chat_history";
}

} // namespace paceline::apps

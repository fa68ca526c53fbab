#include "apps/chat/history_file.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <sys/file.h>
#include <unistd.h>

namespace paceline::apps {

namespace fs = std::filesystem;

namespace {

/// Holds the file for this process, or shares it with other readers. Where the file system has no locks,
/// nothing is held.
class file_lock {
 public:
  file_lock(const fs::path& file, int flags, int operation)
      : file_(open(file.c_str(), flags | O_CLOEXEC, S_IRUSR | S_IWUSR)) {
    while (file_ >= 0 && flock(file_, operation) != 0 && errno == EINTR) {
    }
  }
  ~file_lock() {
    if (file_ >= 0) close(file_);
  }
  file_lock(const file_lock&) = delete;
  file_lock& operator=(const file_lock&) = delete;

 private:
  const int file_;
};

} // namespace

void prepare_history(History* entries) {
  constexpr int most_entries = 1000;
  HistEvent event{};
  history(entries, &event, H_SETSIZE, most_entries);
  history(entries, &event, H_SETUNIQUE, 1);
}

void load_history(History* entries, const fs::path& file) {
  const file_lock held(file, O_RDONLY, LOCK_SH);
  HistEvent event{};
  history(entries, &event, H_LOAD, file.c_str());
}

void add_to_history(const fs::path& file, const std::string& message) {
  std::error_code failed;
  fs::create_directories(file.parent_path(), failed);
  const file_lock held(file, O_RDWR | O_CREAT, LOCK_EX);
  const std::unique_ptr<History, decltype(&history_end)> all(history_init(), history_end);
  HistEvent event{};
  prepare_history(all.get());
  history(all.get(), &event, H_LOAD, file.c_str());
  history(all.get(), &event, H_ENTER, message.c_str());
  history(all.get(), &event, H_SAVE, file.c_str()); // hides the file from other users
}

fs::path history_file() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/')
    return fs::path(state) / "paceline" / "chat_history";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  return fs::path(home) / ".local" / "state" / "paceline" / "chat_history";
}

} // namespace paceline::apps

#include "apps/chat/line_reader.hpp"

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <fcntl.h>
#include <histedit.h>
#include <iostream>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace paceline::apps {

namespace {

namespace fs = std::filesystem;

class plain_reader final : public line_reader {
 public:
  line_outcome read(const std::string& prompt, std::string& line) override {
    std::fputs(prompt.c_str(), stderr);
    return std::getline(std::cin, line) ? line_outcome::line : line_outcome::end;
  }
  void remember(const std::string&) override {}
};

// An eventfd: poll() waits for it, and a signal handler has no other way to reach this object.
int interrupts = -1;

/// While it exists, SIGINT only makes `interrupts` readable, whichever thread receives it.
class interruptible {
 public:
  interruptible() {
    if (interrupts < 0) interrupts = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    eventfd_t late = 0; // an interrupt that came when the previous line was complete
    eventfd_read(interrupts, &late);
    struct sigaction action {};
    action.sa_handler = [](int) {
      const int before = errno;
      eventfd_write(interrupts, 1);
      errno = before;
    };
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &before_);
  }
  ~interruptible() { sigaction(SIGINT, &before_, nullptr); }
  interruptible(const interruptible&) = delete;
  interruptible& operator=(const interruptible&) = delete;

 private:
  struct sigaction before_ {};
};

/// The terminal of standard input, opened once more so that a read of it does not wait: the terminal drops
/// what was typed when Ctrl-C arrives, and poll() may have reported those keys a moment before. O_NONBLOCK on
/// standard input itself would also hold for the shell. A negative number if it cannot be opened.
int open_keyboard() { return open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); }

enum class key { character, end, interrupt };

/// Waits for a character of `keyboard`, or an interrupt. The editor's own function would miss an interrupt
/// that arrives between the prompt and its read(). Bytes that are not a character are dropped.
key next_key(int keyboard, wchar_t& to) {
  std::mbstate_t state{};
  for (;;) {
    pollfd waits[] = {{keyboard, POLLIN, 0}, {interrupts, POLLIN, 0}};
    // A signal; if it was an interrupt, the next call of poll reports it.
    if (poll(waits, 2, -1) < 0) continue;
    if (waits[1].revents != 0) {
      eventfd_t count = 0;
      eventfd_read(interrupts, &count);
      return key::interrupt;
    }
    char byte = 0;
    const auto length = read(keyboard, &byte, 1);
    if (length < 0 && (errno == EAGAIN || errno == EINTR)) continue; // the interrupt follows
    if (length <= 0) return key::end;
    const auto used = std::mbrtowc(&to, &byte, 1, &state);
    if (used == static_cast<std::size_t>(-1)) state = {};
    if (used <= 1) return key::character;
  }
}

class editing_reader final : public line_reader {
 public:
  explicit editing_reader(const fs::path& file)
      : file_(file), editor_(el_init("paceline", stdin, stderr, stderr), el_end),
        history_(history_init(), history_end), keyboard_(open_keyboard()) {
    if (keyboard_ < 0) keyboard_ = STDIN_FILENO;
    std::setlocale(LC_CTYPE, ""); // characters of more than one byte
    history(history_.get(), &event_, H_SETSIZE, most_entries);
    history(history_.get(), &event_, H_SETUNIQUE, 1);
    if (!file_.empty()) history(history_.get(), &event_, H_LOAD, file_.c_str());
    el_set(editor_.get(), EL_CLIENTDATA, this);
    el_set(
        editor_.get(), EL_PROMPT, +[](EditLine* editor) { // a pointer: arguments are not converted
          void* self = nullptr;
          el_get(editor, EL_CLIENTDATA, &self);
          return static_cast<editing_reader*>(self)->prompt_.data();
        });
    el_set(
        editor_.get(), EL_GETCFN, +[](EditLine* editor, wchar_t* to) {
          void* self = nullptr;
          el_get(editor, EL_CLIENTDATA, &self);
          auto& reader = *static_cast<editing_reader*>(self);
          const auto found = next_key(reader.keyboard_, *to);
          reader.was_interrupted_ = found == key::interrupt;
          return found == key::character ? 1 : found == key::end ? 0 : -1;
        });
    el_set(editor_.get(), EL_EDITOR, "emacs");
    el_set(editor_.get(), EL_HIST, history, history_.get());
    el_source(editor_.get(), nullptr); // ~/.editrc, the user's own keys
  }
  ~editing_reader() override {
    if (keyboard_ != STDIN_FILENO) close(keyboard_);
  }

  line_outcome read(const std::string& prompt, std::string& line) override {
    prompt_ = prompt;
    int count = 0;
    const interruptible while_reading;
    was_interrupted_ = false;
    // This is done before the prompt is seen, because the terminal turns a Ctrl-D that arrives in line mode
    // into a NUL.
    el_set(editor_.get(), EL_PREP_TERM, 1);
    const char* text = el_gets(editor_.get(), &count);
    if (text == nullptr || count <= 0) {
      std::fputc('\n', stderr);
      return was_interrupted_ ? line_outcome::interrupted : line_outcome::end;
    }
    line.assign(text, static_cast<std::size_t>(count));
    if (line.back() == '\n') line.pop_back();
    return line_outcome::line;
  }

  void remember(const std::string& message) override {
    history(history_.get(), &event_, H_ENTER, message.c_str());
    if (file_.empty()) return;
    std::error_code failed;
    fs::create_directories(file_.parent_path(), failed);
    history(history_.get(), &event_, H_SAVE, file_.c_str()); // hides the file from other users
  }

 private:
  static constexpr int most_entries = 1000;

  const fs::path file_;
  std::unique_ptr<EditLine, decltype(&el_end)> editor_;
  std::unique_ptr<History, decltype(&history_end)> history_;
  HistEvent event_{};
  std::string prompt_;
  int keyboard_;
  bool was_interrupted_ = false;
};

} // namespace

std::unique_ptr<line_reader> make_line_reader(const fs::path& history) {
  if (isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0)
    return std::make_unique<editing_reader>(history);
  return std::make_unique<plain_reader>();
}

fs::path history_file() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/')
    return fs::path(state) / "paceline" / "chat_history";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  return fs::path(home) / ".local" / "state" / "paceline" / "chat_history";
}

} // namespace paceline::apps

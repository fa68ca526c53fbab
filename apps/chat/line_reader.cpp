#include "apps/chat/line_reader.hpp"

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <histedit.h>
#include <iostream>
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

/// While it exists, SIGINT interrupts a system call and does nothing else.
class interruptible {
 public:
  interruptible() {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    sigemptyset(&action.sa_mask); // without SA_RESTART: the read must return
    sigaction(SIGINT, &action, &before_);
  }
  ~interruptible() { sigaction(SIGINT, &before_, nullptr); }
  interruptible(const interruptible&) = delete;
  interruptible& operator=(const interruptible&) = delete;

 private:
  struct sigaction before_ {};
};

class editing_reader final : public line_reader {
 public:
  explicit editing_reader(const fs::path& file)
      : file_(file), editor_(el_init("paceline", stdin, stderr, stderr), el_end),
        history_(history_init(), history_end) {
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
    el_set(editor_.get(), EL_EDITOR, "emacs");
    el_set(editor_.get(), EL_HIST, history, history_.get());
    el_source(editor_.get(), nullptr); // ~/.editrc, the user's own keys
  }

  line_outcome read(const std::string& prompt, std::string& line) override {
    prompt_ = prompt;
    int count = 0;
    const interruptible while_reading;
    errno = 0;
    const char* text = el_gets(editor_.get(), &count);
    if (text == nullptr || count <= 0) {
      std::fputc('\n', stderr);
      return errno == EINTR ? line_outcome::interrupted : line_outcome::end;
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
    history(history_.get(), &event_, H_SAVE, file_.c_str()); // which takes the file from all others
  }

 private:
  static constexpr int most_entries = 1000;

  const fs::path file_;
  std::unique_ptr<EditLine, decltype(&el_end)> editor_;
  std::unique_ptr<History, decltype(&history_end)> history_;
  HistEvent event_{};
  std::string prompt_;
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

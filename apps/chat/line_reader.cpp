#include "apps/chat/line_reader.hpp"

#include "apps/chat/history_file.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <fcntl.h>
#include <functional>
#include <histedit.h>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace paceline::apps {

namespace {

namespace fs = std::filesystem;

/// The terminal of standard input, opened once more so that a read of it does not wait: the terminal drops
/// what was typed when Ctrl-C arrives, and poll() may have reported those keys a moment before. O_NONBLOCK on
/// standard input itself would also hold for the shell. A negative number if it cannot be opened.
int open_keyboard() { return open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); }

// The handler of the signals at a prompt may run on any thread and cannot reach an object.
std::atomic<int> signal_of_end{0};  ///< arrived and ends the process; 0: none
std::atomic<int> signal_events{-1}; ///< an eventfd, which stays open
static_assert(std::atomic<int>::is_always_lock_free);

void note_signal(int signal) {
  const int before = errno;
  if (signal != SIGCONT) signal_of_end = signal;
  eventfd_write(signal_events, 1);
  errno = before;
}

/// While an object exists, signals that end or continue the process are only noted, because the editor has
/// changed the modes of the terminal. The destructor raises the noted signal again. At most one object may
/// exist at a time.
class prompt_signals {
 public:
  prompt_signals() {
    if (signal_events < 0) signal_events = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct sigaction action {};
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (auto& [signal, before] : before_) {
      sigaction(signal, nullptr, &before);
      if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr); // nohup ignores SIGHUP
    }
  }
  ~prompt_signals() {
    for (const auto& [signal, before] : before_) sigaction(signal, &before, nullptr);
    if (const int signal = take()) raise(signal);
  }
  prompt_signals(const prompt_signals&) = delete;
  prompt_signals& operator=(const prompt_signals&) = delete;

  /// Forgets what has arrived. Returns the signal that ends the process; 0: none.
  static int take() {
    eventfd_t count = 0;
    eventfd_read(signal_events, &count);
    return signal_of_end.exchange(0);
  }

 private:
  std::array<std::pair<int, struct sigaction>, 4> before_{
      {{SIGTERM, {}}, {SIGHUP, {}}, {SIGQUIT, {}}, {SIGCONT, {}}}};
};

/// Bytes of standard input. An interrupt ends the wait for them.
class interruptible_input {
 public:
  /// `on_signal` is called when one of the signals at a prompt has been noted; empty: they are not watched.
  explicit interruptible_input(const interrupt_watch& watch, std::function<void()> on_signal = {})
      : watch_(watch), on_signal_(std::move(on_signal)) {
    if (isatty(STDIN_FILENO) != 0) keyboard_ = open_keyboard();
  }
  ~interruptible_input() {
    if (keyboard_ >= 0) close(keyboard_);
  }
  interruptible_input(const interruptible_input&) = delete;
  interruptible_input& operator=(const interruptible_input&) = delete;

  /// Reads 1 to `most` bytes and returns their number; 0 at the end of the input, nullopt after an interrupt.
  std::optional<std::size_t> read(char* to, std::size_t most) const {
    const int from = keyboard_ >= 0 ? keyboard_ : STDIN_FILENO;
    for (;;) {
      pollfd waits[] = {{from, POLLIN, 0},
                        {watch_.descriptor(), POLLIN, 0},
                        {on_signal_ ? signal_events.load() : -1, POLLIN, 0}};
      // A signal; if it was an interrupt, the next call of poll reports it.
      if (poll(waits, 3, -1) < 0) continue;
      if (waits[2].revents != 0) on_signal_();
      if (waits[1].revents != 0) return std::nullopt;
      if (waits[0].revents == 0) continue;
      const auto count = ::read(from, to, most);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue; // the interrupt follows
      return count < 0 ? 0 : static_cast<std::size_t>(count);
    }
  }

 private:
  const interrupt_watch& watch_;
  const std::function<void()> on_signal_;
  int keyboard_ = -1;
};

class plain_reader final : public line_reader {
 public:
  explicit plain_reader(const interrupt_watch& watch) : input_(watch) {}

  line_outcome read(const std::string& prompt, std::string& line) override {
    std::fputs(prompt.c_str(), stderr);
    for (std::size_t searched = 0;;) {
      if (const auto end = text_.find('\n', searched); end != std::string::npos) {
        line = text_.substr(0, end);
        text_.erase(0, end + 1);
        return line_outcome::line;
      }
      if (has_ended_) {
        line = std::exchange(text_, {}); // a last line without a line break
        return line.empty() ? line_outcome::end : line_outcome::line;
      }
      searched = text_.size();
      char bytes[4096];
      const auto count = input_.read(bytes, sizeof bytes);
      if (!count) return drop_line();
      text_.append(bytes, *count);
      has_ended_ = *count == 0;
    }
  }
  void remember(const std::string&) override {}

 private:
  line_outcome drop_line() {
    std::fputc('\n', stderr);
    // The rest of a line that was typed is dropped, but the writer of a pipe goes on with its line.
    if (isatty(STDIN_FILENO) != 0) text_.clear();
    return line_outcome::interrupted;
  }

  const interruptible_input input_;
  std::string text_; ///< what was read beyond the lines that were returned
  bool has_ended_ = false;
};

enum class key { character, end, interrupt };

/// Waits for a character, or an interrupt. The editor's own function would miss an interrupt that arrives
/// between the prompt and its read(). Bytes that are not a character are dropped.
key next_key(const interruptible_input& keyboard, wchar_t& to) {
  std::mbstate_t state{};
  for (;;) {
    char byte = 0;
    const auto count = keyboard.read(&byte, 1);
    if (!count) return key::interrupt;
    if (*count == 0) return key::end;
    const auto used = std::mbrtowc(&to, &byte, 1, &state);
    if (used == static_cast<std::size_t>(-1)) state = {};
    if (used <= 1) return key::character;
  }
}

class editing_reader final : public line_reader {
 public:
  editing_reader(const fs::path& file, const interrupt_watch& watch)
      : file_(file), editor_(el_init("paceline", stdin, stderr, stderr), el_end),
        history_(history_init(), history_end), input_(watch, [this] { obey_signal(); }) {
    std::setlocale(LC_CTYPE, ""); // characters of more than one byte
    prepare_history(history_.get());
    if (!file_.empty()) check_history(load_history(history_.get(), file_));
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
          const auto found = next_key(reader.input_, *to);
          reader.was_interrupted_ = found == key::interrupt;
          return found == key::character ? 1 : found == key::end ? 0 : -1;
        });
    el_set(editor_.get(), EL_EDITOR, "emacs");
    el_set(editor_.get(), EL_HIST, history, history_.get());
    el_source(editor_.get(), nullptr); // ~/.editrc, the user's own keys
  }

  line_outcome read(const std::string& prompt, std::string& line) override {
    prompt_ = prompt;
    int count = 0;
    was_interrupted_ = false;
    const prompt_signals signals;
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
    if (!file_.empty()) check_history(add_to_history(file_, message));
  }

 private:
  /// After a failure the file is left alone. The user is told once.
  void check_history(const expected<void>& done) {
    if (done) return;
    std::fprintf(stderr, "paceline: %s; what is typed is not kept\n", done.error().message().c_str());
    file_.clear();
  }

  /// Ends the process with the terminal's own modes, or draws the prompt again after a stop, during which a
  /// shell may have changed the modes.
  void obey_signal() {
    el_set(editor_.get(), EL_PREP_TERM, 0);
    if (const int signal = prompt_signals::take()) {
      std::fputc('\n', stderr);
      std::signal(signal, SIG_DFL);
      raise(signal);
    }
    el_set(editor_.get(), EL_PREP_TERM, 1);
    std::fputc('\r', stderr); // SIGCONT may come without a stop, behind the prompt
    el_set(editor_.get(), EL_REFRESH);
  }

  fs::path file_; ///< empty: the history is not saved
  std::unique_ptr<EditLine, decltype(&el_end)> editor_;
  std::unique_ptr<History, decltype(&history_end)> history_;
  HistEvent event_{};
  std::string prompt_;
  const interruptible_input input_;
  bool was_interrupted_ = false;
};

} // namespace

std::unique_ptr<line_reader> make_line_reader(const fs::path& history, const interrupt_watch& watch) {
  if (isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0)
    return std::make_unique<editing_reader>(history, watch);
  return std::make_unique<plain_reader>(watch);
}

} // namespace paceline::apps

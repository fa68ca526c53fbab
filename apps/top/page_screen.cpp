#include "apps/top/page_screen.hpp"

#include "apps/commands/run_request.hpp"
#include "apps/top/text_layout.hpp"

#include <atomic>
#include <cerrno>
#include <poll.h>
#include <pthread.h>
#include <string_view>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace paceline::apps {

namespace {

/// What the signals' handlers need, which cannot reach an object.
struct page_state {
  std::atomic<bool> is_shown{false};
  bool has_keyboard = false;
  termios usual{}; ///< modes of the keyboard before and after the page
  termios ours{};  ///< the same modes, but keys are not shown and come one by one
};
page_state shared_page;
static_assert(std::atomic<bool>::is_always_lock_free);

/// False if a shell has the terminal. A process in the background would be stopped when it changes the modes.
/// A terminal that controls no process has no foreground.
bool has_terminal() {
  const auto front = tcgetpgrp(STDOUT_FILENO);
  return front < 0 || front == getpgrp();
}

void write_escapes(std::string_view text) {
  [[maybe_unused]] const auto written = write(STDOUT_FILENO, text.data(), text.size());
}

// All functions that these two call may be called in a signal's handler.
void enter_page() {
  if (!has_terminal()) return;
  if (shared_page.has_keyboard) tcsetattr(STDIN_FILENO, TCSANOW, &shared_page.ours);
  if (!shared_page.is_shown.exchange(true)) write_escapes("\x1b[?1049h\x1b[?25l"); // another page, no cursor
}

void leave_page() {
  if (!shared_page.is_shown.exchange(false)) return;
  write_escapes("\x1b[?25h\x1b[?1049l");
  if (shared_page.has_keyboard && has_terminal()) tcsetattr(STDIN_FILENO, TCSANOW, &shared_page.usual);
}

void set_handler(int signal, void (*handler)(int), struct sigaction* before = nullptr) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, before);
}

/// Handles SIGTSTP: Ctrl-Z.
void stop_page(int) {
  const int before = errno;
  leave_page();
  set_handler(SIGTSTP, SIG_DFL);
  raise(SIGTSTP);
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &stop, nullptr); // the process stops here
  set_handler(SIGTSTP, stop_page);
  enter_page(); // without a shell that could continue the process, it was not stopped
  errno = before;
}

/// Handles SIGCONT, also after a stop by SIGSTOP, which cannot be handled.
void continue_page(int) {
  const int before = errno;
  has_terminal() ? enter_page() : leave_page();
  errno = before;
}

winsize size_of_terminal() {
  constexpr unsigned short many = 1000;
  winsize size{};
  ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  if (size.ws_col == 0) size.ws_col = many;
  if (size.ws_row == 0) size.ws_row = many;
  return size;
}

} // namespace

page_screen::page_screen() {
  shared_page.has_keyboard = isatty(STDIN_FILENO) != 0 && tcgetattr(STDIN_FILENO, &shared_page.usual) == 0;
  shared_page.ours = shared_page.usual;
  shared_page.ours.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  // A read does not wait: the terminal drops keys when Ctrl-C arrives, after poll() may have reported them.
  shared_page.ours.c_cc[VMIN] = 0;
  shared_page.ours.c_cc[VTIME] = 0;
  set_handler(SIGTSTP, stop_page, &stop_before_);
  set_handler(SIGCONT, continue_page, &continue_before_);
  enter_page();
}

page_screen::~page_screen() {
  sigaction(SIGTSTP, &stop_before_, nullptr);
  sigaction(SIGCONT, &continue_before_, nullptr);
  leave_page();
}

void page_screen::show(std::string_view text) const {
  if (!shared_page.is_shown) enter_page(); // the shell may have given the terminal without a signal
  if (shared_page.is_shown) print_now(page_of(text, size_of_terminal().ws_row));
}

std::size_t page_screen::columns() { return size_of_terminal().ws_col; }

int page_screen::keyboard() const {
  return shared_page.has_keyboard && shared_page.is_shown ? STDIN_FILENO : -1;
}

bool page_screen::quits() {
  pollfd waits{keyboard(), POLLIN, 0};
  while (!quits_ && poll(&waits, 1, 0) > 0) {
    char keys[64];
    const auto count = read(STDIN_FILENO, keys, sizeof keys);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      quits_ = (waits.revents & POLLHUP) != 0 || (count < 0 && errno != EAGAIN);
      break;
    }
    quits_ = std::string_view(keys, static_cast<std::size_t>(count)).find('q') != std::string_view::npos;
  }
  return quits_;
}

} // namespace paceline::apps

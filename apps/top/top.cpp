#include "apps/commands/options.hpp"
#include "apps/commands/run_request.hpp"
#include "apps/exit_codes.hpp"
#include "apps/interrupt_watch.hpp"
#include "apps/top/daemon_client.hpp"
#include "apps/top/top_figures.hpp"

#include <boost/json/parse.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <sys/ioctl.h>
#include <thread>
#include <unistd.h>

namespace paceline::apps {

namespace {

/// The first event of a stream.
std::string_view data_of(std::string_view stream) {
  constexpr std::string_view field = "data: ";
  const auto begin = stream.find(field);
  if (begin == std::string_view::npos) return {};
  stream.remove_prefix(begin + field.size());
  return stream.substr(0, stream.find('\n'));
}

expected<top_sample> sample_of(daemon_client& daemon) {
  const auto metrics = daemon.get("/metrics");
  if (!metrics) return metrics.error();
  const auto events = daemon.get("/paceline/events?limit=1");
  if (!events) return events.error();
  boost::system::error_code failed;
  const auto snapshot = boost::json::parse(data_of(*events), failed);
  if (failed || !snapshot.is_object()) return error{errc::internal, "/paceline/events: no snapshot"};
  const auto seconds = [](auto since) { return std::chrono::duration<double>(since).count(); };
  return top_sample{seconds(std::chrono::steady_clock::now().time_since_epoch()),
                    seconds(std::chrono::system_clock::now().time_since_epoch()),
                    metric_samples::parse(*metrics), snapshot.as_object()};
}

/// Where figures are shown: in place of the previous ones on a terminal, otherwise below them.
class screen {
 public:
  explicit screen(bool replaces) : replaces_(replaces) {
    if (replaces_) print_now("\x1b[?1049h\x1b[?25l"); // another page, no cursor
  }
  ~screen() {
    if (replaces_) print_now("\x1b[?25h\x1b[?1049l");
  }
  screen(const screen&) = delete;
  screen& operator=(const screen&) = delete;

  static std::size_t columns() {
    winsize size{};
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 1000;
  }
  static std::size_t rows() {
    winsize size{};
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 1000;
  }

  /// Names and messages come from the server, so their control characters are not written to the terminal.
  void show(std::string text) const {
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return (c < 0x20 && c != '\n') || c == 0x7F; }, '?');
    if (!replaces_) return print_now(text);
    std::string page = "\x1b[H";
    std::size_t left = rows();
    for (const char c : text) {
      if (c != '\n')
        page += c;
      else if (--left > 0)
        page += "\x1b[K\n";
      else
        break; // more would scroll the first lines away
    }
    print_now(page + "\x1b[J");
  }

 private:
  const bool replaces_;
};

/// Sleeps for `time`; false if Ctrl-C was pressed.
bool wait(std::chrono::milliseconds time, const interrupt_watch& watch) {
  constexpr std::chrono::milliseconds step{50};
  const auto end = std::chrono::steady_clock::now() + time;
  while (!watch.interrupted() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(
        std::min<std::chrono::steady_clock::duration>(step, end - std::chrono::steady_clock::now()));
  return !watch.interrupted();
}

} // namespace

int top(const top_options& options) {
  auto daemon = daemon_client::make({options.url, options.api_key, options.ca_file});
  if (!daemon) {
    std::fprintf(stderr, "paceline: %s\n", daemon.error().message().c_str());
    return exit_usage;
  }
  auto before = sample_of(**daemon);
  if (!before) return fail(before.error());
  const std::chrono::milliseconds interval(static_cast<long>(1000 * options.interval));
  const interrupt_watch watch;
  const bool is_page = isatty(STDOUT_FILENO) != 0 && !options.once && !options.json;
  const screen page(is_page);
  while (wait(interval, watch)) {
    auto now = sample_of(**daemon);
    if (!now && !is_page) return fail(now.error());
    if (!now) { // the daemon may come back
      page.show(now.error().message() + "\n");
      continue;
    }
    const auto figures = figures_between(*before, *now);
    page.show(options.json ? to_json_line(figures, options.url)
                           : to_text(figures, options.url, is_page ? screen::columns() : 1000) +
                                 (is_page || options.once ? "" : "\n"));
    if (options.once) return exit_success;
    before = std::move(now);
  }
  return exit_success;
}

} // namespace paceline::apps

#include "apps/commands/options.hpp"
#include "apps/commands/run_request.hpp"
#include "apps/exit_codes.hpp"
#include "apps/interrupt_watch.hpp"
#include "apps/terminal_text.hpp"
#include "apps/top/daemon_client.hpp"
#include "apps/top/page_screen.hpp"
#include "apps/top/top_figures.hpp"

#include <boost/json/parse.hpp>

#include <chrono>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <functional>
#include <optional>
#include <poll.h>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

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

expected<top_sample> sample_of(daemon_client& daemon, const std::function<bool()>& wants_end) {
  const auto metrics = daemon.get("/metrics", wants_end);
  if (!metrics) return metrics.error();
  const auto events = daemon.get("/paceline/events?limit=1", wants_end);
  if (!events) return events.error();
  boost::system::error_code failed;
  const auto snapshot = boost::json::parse(data_of(*events), failed);
  if (failed || !snapshot.is_object()) return error{errc::internal, "/paceline/events: no snapshot"};
  const auto seconds = [](auto since) { return std::chrono::duration<double>(since).count(); };
  return top_sample{seconds(std::chrono::steady_clock::now().time_since_epoch()),
                    seconds(std::chrono::system_clock::now().time_since_epoch()),
                    metric_samples::parse(*metrics), snapshot.as_object()};
}

/// Sleeps for `time`; false once `wants_end` is true. It is asked again after a signal and after a key.
bool sleep_for(std::chrono::milliseconds time, const interrupt_watch& watch,
               const std::optional<page_screen>& page, const std::function<bool()>& wants_end) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!wants_end()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return true;
    pollfd waits[] = {{watch.descriptor(), POLLIN, 0}, {page ? page->keyboard() : -1, POLLIN, 0}};
    poll(waits, 2, static_cast<int>(left.count()));
  }
  return false;
}

std::string text_of(const top_figures& figures, const top_options& options, std::size_t columns) {
  if (options.json) return for_output(to_json_line(figures, options.url)); // JSON allows U+0080 to U+009F
  return to_text(figures, options.url, columns);
}

/// Shows figures until the user has seen enough; returns the exit code.
int watch_daemon(daemon_client& daemon, const top_options& options, top_sample before) {
  const bool is_page = isatty(STDOUT_FILENO) != 0 && !options.once && !options.json;
  const interrupt_watch watch(is_page ? std::vector{SIGINT, SIGTERM, SIGHUP, SIGQUIT} : std::vector{SIGINT});
  std::optional<page_screen> page;
  if (is_page) page.emplace();
  const auto wants_end = [&] { return watch.interrupted() || (page && page->quits()); };
  const std::chrono::milliseconds interval(static_cast<long>(1000 * options.interval));
  while (sleep_for(interval, watch, page, wants_end)) {
    auto now = sample_of(daemon, wants_end);
    if (wants_end()) break;
    if (!now && !page) return fail(now.error());
    if (!now) { // the daemon may come back
      page->show(now.error().message() + "\n");
      continue;
    }
    const auto figures = figures_between(before, *now);
    if (page)
      page->show(text_of(figures, options, page_screen::columns()));
    else
      print_now(text_of(figures, options, 1000) + (options.once || options.json ? "" : "\n"));
    if (options.once) break;
    before = *std::move(now);
  }
  return exit_success;
}

} // namespace

int top(const top_options& options) {
  std::setlocale(LC_CTYPE, ""); // which characters take two columns
  auto daemon = daemon_client::make({options.url, options.api_key, options.ca_file});
  if (!daemon) {
    std::fprintf(stderr, "paceline: %s\n", daemon.error().message().c_str());
    return exit_usage;
  }
  auto before = sample_of(**daemon, {});
  if (!before) return fail(before.error());
  return watch_daemon(**daemon, options, *std::move(before));
}

} // namespace paceline::apps

#pragma once

#include "config/server_options.hpp"
#include "runtime/base/expected.hpp"

#include <atomic>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace paceline::server {

/// A named value of a log line. It must not contain a prompt, an output or an API key.
struct log_field {
  log_field(std::string_view field, std::string_view text) : name(field), value(text) {}
  log_field(std::string_view field, const char* text) : name(field), value(text) {}
  template <std::integral Int>
  log_field(std::string_view field, Int number)
      : name(field), value(std::to_string(number)), is_number(true) {}

  std::string_view name;
  std::string value;
  bool is_number = false;
};

/// The daemon's log: one event a line. Text: "2026-01-31T12:00:00.000Z info draining timeout_ms=30000"; JSON:
/// one object with time, level, message and the fields. Thread-safe. Writing never waits for a reader or for
/// room: if the pipe or disk is full, the line is dropped and counted.
class event_log {
 public:
  /// A log that writes nothing.
  event_log() = default;
  ~event_log();
  event_log(const event_log&) = delete;
  event_log& operator=(const event_log&) = delete;

  /// Logs to `options.file`, which is created or appended to. If that is empty, logs to the descriptor
  /// `standard_error`, which is not closed.
  static expected<std::shared_ptr<event_log>> open(const config::logging_options& options,
                                                   int standard_error = 2);

  bool wants(config::log_level level) const noexcept {
    return level >= level_.load(std::memory_order_relaxed) && level != config::log_level::off;
  }
  void set_level(config::log_level level) noexcept { level_.store(level, std::memory_order_relaxed); }
  /// Opens the file again after it was moved away (log rotation). On failure the old file stays open.
  expected<void> reopen();

  void write(config::log_level level, std::string_view message, std::initializer_list<log_field> fields = {});

  /// Number of lines that could not be written.
  std::uint64_t num_dropped() const noexcept { return num_dropped_.load(std::memory_order_relaxed); }

 private:
  std::atomic<config::log_level> level_{config::log_level::off};
  config::log_format format_ = config::log_format::text;
  std::string path_; ///< empty: standard error
  std::mutex mutex_; ///< held while the room for a line is checked and the line is written
  int descriptor_ = -1;
  std::atomic<std::uint64_t> num_dropped_{0};
};

/// A line without its line break, at most 4095 bytes, which a pipe accepts in one write (PIPE_BUF). A longer
/// text line is cut. A longer JSON line loses its fields and, if necessary, the end of its message. `time` is
/// the time since 1970.
std::string format_line(config::log_format format, std::chrono::milliseconds time, config::log_level level,
                        std::string_view message, std::initializer_list<log_field> fields);

} // namespace paceline::server

#include "server/event_log.hpp"

#include "protocol/wire/json_writer.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace paceline::server {

namespace {

/// With at most this size, a line and its end are written as a whole or not at all.
constexpr std::size_t max_line_bytes = PIPE_BUF - 1;

std::string_view word_of(config::log_level level) {
  static constexpr std::string_view words[] = {"debug", "info", "warning", "error", "off"};
  return words[static_cast<std::size_t>(level)];
}

std::string utc(std::chrono::milliseconds time) {
  const std::time_t seconds = time.count() / 1000;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 40> text{};
  const auto size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 8> fraction{};
  std::snprintf(fraction.data(), fraction.size(), ".%03dZ", static_cast<int>(time.count() % 1000));
  return std::string(text.data(), size) + fraction.data();
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

/// Appends a single word unchanged and anything else quoted as JSON.
void append_value(std::string& out, const std::string& value) {
  const auto is_plain = [](char c) { return c > ' ' && c < 0x7f && c != '"' && c != '='; };
  if (!value.empty() && std::ranges::all_of(value, is_plain))
    out += value;
  else
    wire::append_json_string(out, value);
}

std::string text_line(std::chrono::milliseconds time, config::log_level level, std::string_view message,
                      std::initializer_list<log_field> fields) {
  auto line = utc(time);
  line.append(" ").append(word_of(level)).append(" ");
  for (const char c : message) line += is_control(c) ? ' ' : c;
  for (const auto& field : fields) {
    line.append(" ").append(field.name).append("=");
    append_value(line, field.value);
  }
  return line;
}

std::string json_line(std::chrono::milliseconds time, config::log_level level, std::string_view message,
                      std::initializer_list<log_field> fields) {
  wire::json_writer out;
  out.begin_object().field("time", utc(time)).field("level", word_of(level)).field("message", message);
  for (const auto& field : fields) {
    out.key(field.name);
    field.is_number ? out.raw(field.value) : out.value(std::string_view(field.value));
  }
  return out.end_object().take();
}

expected<int> open_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0640);
  if (descriptor < 0)
    return error{errc::invalid_argument, "logging.file: " + path + ": " + std::strerror(errno)};
  return descriptor;
}

} // namespace

std::string format_line(config::log_format format, std::chrono::milliseconds time, config::log_level level,
                        std::string_view message, std::initializer_list<log_field> fields) {
  if (format == config::log_format::text) {
    auto line = text_line(time, level, message, fields);
    line.resize(std::min(line.size(), max_line_bytes));
    return line;
  }
  auto line = json_line(time, level, message, fields);
  if (line.size() <= max_line_bytes) return line;
  // A part of a JSON object is useless. A line that is too long is written without its fields, and if
  // necessary its message is truncated, too.
  line = json_line(time, level, message, {});
  return line.size() <= max_line_bytes ? line : json_line(time, level, message.substr(0, 500), {});
}

event_log::~event_log() {
  if (!path_.empty()) ::close(descriptor_);
}

expected<std::shared_ptr<event_log>> event_log::open(const config::logging_options& options,
                                                     int standard_error) {
  auto made = std::make_shared<event_log>();
  made->format_ = options.format;
  made->set_level(options.level);
  if (options.file.empty()) {
    made->descriptor_ = standard_error;
    return made;
  }
  const auto descriptor = open_file(options.file);
  if (!descriptor) return descriptor.error();
  made->descriptor_ = *descriptor;
  made->path_ = options.file;
  return made;
}

expected<void> event_log::reopen() {
  if (path_.empty()) return {};
  const auto fresh = open_file(path_);
  if (!fresh) return fresh.error();
  std::lock_guard lock(mutex_);
  ::close(std::exchange(descriptor_, *fresh));
  return {};
}

void event_log::write(config::log_level level, std::string_view message,
                      std::initializer_list<log_field> fields) {
  if (!wants(level)) return;
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  const auto line = format_line(format_, now, level, message, fields) + '\n';
  std::lock_guard lock(mutex_);
  // A pipe or socket that is writable accepts a line of this length at once.
  pollfd sink{descriptor_, POLLOUT, 0};
  const bool has_room = ::poll(&sink, 1, 0) == 1;
  if (!has_room || ::write(descriptor_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    num_dropped_.fetch_add(1, std::memory_order_relaxed);
}

} // namespace paceline::server

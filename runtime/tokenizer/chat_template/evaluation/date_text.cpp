#include "runtime/tokenizer/chat_template/evaluation/date_text.hpp"

#include "runtime/tokenizer/chat_template/python/failure.hpp"

#include <algorithm>
#include <chrono>

namespace paceline::tokenizer::jinja {

namespace {

constexpr std::size_t max_format_bytes = 4096;

/// Replaces the directives that Python itself handles: microseconds, and an empty zone for times without a
/// zone.
std::string with_own_directives(std::string_view format, const wall_time& time) {
  std::string out;
  for (std::size_t at = 0; at < format.size(); ++at) {
    const char directive = format[at] == '%' && at + 1 < format.size() ? format[at + 1] : '\0';
    if (directive == 'f') {
      const std::string digits = std::to_string(std::clamp(time.microseconds, 0, 999999));
      out += std::string(6 - digits.size(), '0') + digits;
    } else if (directive == 'z' || directive == 'Z') {
      // a time without a zone
    } else if (directive != '\0') {
      out += format.substr(at, 2);
    } else {
      out += format[at];
      continue;
    }
    ++at;
  }
  return out;
}

/// glibc accepts a width, as in %100000d, which templates do not need.
void refuse_widths(std::string_view format) {
  int digits = 0;
  for (const char c : format) {
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    if (digits > 4) fail("a date format with a number of more than four digits is not offered");
  }
}

} // namespace

std::string date_text(std::string_view format, const wall_time& time) {
  if (format.size() > max_format_bytes) fail_limit("a date format above 4096 bytes is not offered");
  refuse_widths(format);
  // The added blank makes the result non-empty. So an empty result, such as that of "%p" in some locales,
  // differs from a buffer that is too small.
  const std::string full = with_own_directives(format, time) + " ";
  if (full.find('\0') != std::string::npos) fail("embedded null character");
  std::string out(64 * full.size() + 256, '\0');
  std::size_t written = 0;
  while ((written = std::strftime(out.data(), out.size(), full.c_str(), &time.fields)) == 0) {
    if (out.size() > (1U << 24)) fail_limit("the date text is too long");
    out.resize(out.size() * 2);
  }
  out.resize(written - 1);
  return out;
}

} // namespace paceline::tokenizer::jinja

namespace paceline::tokenizer {

wall_time local_wall_time() {
  using namespace std::chrono;
  const auto now = system_clock::now();
  const std::time_t seconds_now = system_clock::to_time_t(now);
  wall_time time;
  localtime_r(&seconds_now, &time.fields);
  time.microseconds = static_cast<int>(duration_cast<microseconds>(now.time_since_epoch()).count() % 1000000);
  return time;
}

} // namespace paceline::tokenizer

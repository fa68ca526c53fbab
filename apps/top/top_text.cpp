// Formats the figures of `paceline top` as text and as JSON.
#include "apps/top/top_figures.hpp"

#include "protocol/wire/json_writer.hpp"

#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace paceline::apps {

namespace {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

std::string percent(const std::optional<double>& share) {
  return share ? format("%.0f %%", 100 * *share) : std::string("-");
}

std::string duration(double seconds) {
  const auto all = static_cast<unsigned long>(seconds);
  if (all < 60) return format("%lu s", all);
  if (all < 3600) return format("%lu min %02lu s", all / 60, all % 60);
  if (all < 86400) return format("%lu h %02lu min", all / 3600, all / 60 % 60);
  return format("%lu d %02lu h", all / 86400, all / 3600 % 24);
}

std::string bytes(std::uint64_t count) {
  const auto size = static_cast<double>(count);
  return count >= 1ULL << 30U ? format("%.1f GiB", size / (1ULL << 30U))
                              : format("%.0f MiB", size / (1ULL << 20U));
}

std::string ratio(double all, double parts) {
  return parts > 0 ? format("%.2f", all / parts) : std::string("-");
}

/// A bar for a pool: what requests hold, what the prefix cache keeps, and what is free.
std::string bar(const pool_figures& pool) {
  constexpr std::size_t width = 20;
  const auto cells = [&](std::uint64_t blocks) {
    return pool.all == 0 ? 0
                         : static_cast<std::size_t>(std::ceil(static_cast<double>(blocks) * width /
                                                              static_cast<double>(pool.all)));
  };
  std::string out(std::min(cells(pool.active), width), '#');
  out.append(std::min(cells(pool.cached), width - out.size()), '+');
  return "[" + out.append(width - out.size(), '.') + "]";
}

std::string model_lines(const model_figures& m) {
  std::string out =
      format("%-24.24s %7llu %7llu %9.1f %9.1f %9.1f %12s %9s\n", m.name.c_str(),
             static_cast<unsigned long long>(m.running), static_cast<unsigned long long>(m.waiting),
             m.tokens_per_second, m.prompt_tokens_per_second, m.rounds_per_second,
             ratio(m.tokens_per_second, m.rounds_per_second).c_str(), percent(m.acceptance).c_str());
  for (const auto& d : m.drafters) {
    if (!d.acceptance_so_far) continue; // the drafter has never drafted
    out += format("  drafter %-14.14s %9.1f rounds/s %9.1f drafted/s  accepted %5s (%s since the start)\n",
                  d.name.c_str(), d.rounds_per_second, d.drafted_per_second, percent(d.acceptance).c_str(),
                  percent(d.acceptance_so_far).c_str());
  }
  for (const auto& p : m.pools)
    out += format("  pool    %-14.14s %s %llu active, %llu cached, %llu free of %llu blocks\n",
                  p.name.c_str(), bar(p).c_str(), static_cast<unsigned long long>(p.active),
                  static_cast<unsigned long long>(p.cached), static_cast<unsigned long long>(p.free),
                  static_cast<unsigned long long>(p.all));
  return out;
}

std::string stream_line(const stream_figures& s) {
  const double rate = s.age > 0 ? static_cast<double>(s.output_tokens) / s.age : 0;
  return format("%-24.24s %12s %9llu %9llu %9.1f %12s\n", s.model.c_str(), duration(s.age).c_str(),
                static_cast<unsigned long long>(s.prompt_tokens),
                static_cast<unsigned long long>(s.output_tokens), rate,
                ratio(static_cast<double>(s.output_tokens), static_cast<double>(s.rounds)).c_str());
}

/// Cuts each line to `columns`. All text is ASCII, except names.
std::string cut(const std::string& text, std::size_t columns) {
  std::string out;
  std::size_t in_line = 0;
  for (const char c : text) {
    if (c == '\n')
      in_line = 0;
    else if (in_line++ >= columns)
      continue;
    out += c;
  }
  return out;
}

void write_share(wire::json_writer& out, std::string_view name, const std::optional<double>& share) {
  share ? out.field(name, *share) : out.key(name).null();
}

void write_model(wire::json_writer& out, const model_figures& m) {
  out.begin_object().field("model", m.name).field("running", m.running).field("waiting", m.waiting);
  out.field("tokens_per_second", m.tokens_per_second)
      .field("prompt_tokens_per_second", m.prompt_tokens_per_second)
      .field("rounds_per_second", m.rounds_per_second);
  write_share(out, "acceptance", m.acceptance);
  out.key("drafters").begin_array();
  for (const auto& d : m.drafters) {
    out.begin_object().field("drafter", d.name).field("rounds_per_second", d.rounds_per_second);
    out.field("drafted_per_second", d.drafted_per_second);
    write_share(out, "acceptance", d.acceptance);
    write_share(out, "acceptance_so_far", d.acceptance_so_far);
    out.end_object();
  }
  out.end_array().key("pools").begin_array();
  for (const auto& p : m.pools)
    out.begin_object()
        .field("pool", p.name)
        .field("active_blocks", p.active)
        .field("cached_blocks", p.cached)
        .field("free_blocks", p.free)
        .field("num_blocks", p.all)
        .end_object();
  out.end_array().end_object();
}

} // namespace

std::string to_text(const top_figures& f, const std::string& url, std::size_t columns) {
  std::string out = "paceline " + f.version + " at " + url + ", " + f.state;
  if (f.state == "loading") out += format(" %.0f %%", 100 * f.load_progress);
  out += ", up " + duration(f.uptime) + ", " + bytes(f.resident_bytes) + "\n";
  out += format(
      "streams: %llu, connections: %llu (WebSockets: %llu)\n", static_cast<unsigned long long>(f.num_streams),
      static_cast<unsigned long long>(f.connections), static_cast<unsigned long long>(f.websockets));
  if (!f.models.empty())
    out += format("\n%-24s %7s %7s %9s %9s %9s %12s %9s\n", "MODEL", "RUNNING", "WAITING", "TOKENS/S",
                  "PROMPT/S", "ROUNDS/S", "TOKENS/ROUND", "ACCEPTED");
  for (const auto& model : f.models) out += model_lines(model);
  if (!f.streams.empty())
    out += format("\n%-24s %12s %9s %9s %9s %12s\n", "STREAM OF", "AGE", "PROMPT", "OUTPUT", "TOKENS/S",
                  "TOKENS/ROUND");
  for (const auto& stream : f.streams) out += stream_line(stream);
  return cut(out, columns);
}

std::string to_json_line(const top_figures& f, const std::string& url) {
  wire::json_writer out;
  out.begin_object().field("url", url).field("version", f.version).field("state", f.state);
  out.field("load_progress", f.load_progress)
      .field("uptime_seconds", f.uptime)
      .field("interval_seconds", f.interval)
      .field("resident_bytes", f.resident_bytes)
      .field("connections", f.connections)
      .field("websockets", f.websockets)
      .field("num_streams", f.num_streams)
      .key("models")
      .begin_array();
  for (const auto& model : f.models) write_model(out, model);
  out.end_array().key("streams").begin_array();
  for (const auto& s : f.streams)
    out.begin_object()
        .field("model", s.model)
        .field("age_seconds", s.age)
        .field("prompt_tokens", s.prompt_tokens)
        .field("output_tokens", s.output_tokens)
        .field("rounds", s.rounds)
        .end_object();
  return out.end_array().end_object().take() + "\n";
}

} // namespace paceline::apps

// Formats the figures of `paceline top` as text and as JSON.
#include "apps/terminal_text.hpp"
#include "apps/top/text_layout.hpp"
#include "apps/top/top_figures.hpp"

#include "protocol/wire/json_writer.hpp"

#include <algorithm>
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
std::string bar(const pool_figures& pool, std::size_t width) {
  const auto cells = [&](std::uint64_t blocks) {
    return pool.all == 0
               ? 0
               : static_cast<std::size_t>(std::ceil(static_cast<double>(blocks) * static_cast<double>(width) /
                                                    static_cast<double>(pool.all)));
  };
  std::string out(std::min(cells(pool.active), width), '#');
  out.append(std::min(cells(pool.cached), width - out.size()), '+');
  return "[" + out.append(width - out.size(), '.') + "]";
}

std::string number(std::uint64_t value) { return std::to_string(value); }
std::string rate(double value) { return format("%.1f", value); }

/// A name from the daemon, which may have any characters.
std::string shown(const std::string& name) { return for_terminal(name, ""); }

text_table table_of_models(std::size_t columns) {
  return {"MODEL",
          {{"RUNNING", 7, 3},
           {"WAITING", 7, 5},
           {"TOKENS/S", 9, 1},
           {"PROMPT/S", 9, 7},
           {"ROUNDS/S", 9, 6},
           {"TOKENS/ROUND", 12, 4},
           {"ACCEPTED", 9, 2}},
          columns};
}

text_table table_of_streams(std::size_t columns) {
  return {"STREAM OF",
          {{"AGE", 12, 4}, {"PROMPT", 9, 5}, {"OUTPUT", 9, 2}, {"TOKENS/S", 9, 1}, {"TOKENS/ROUND", 12, 3}},
          columns};
}

/// Columns for the name of a drafter or a pool.
std::size_t part_width(std::size_t columns) { return columns < 100 ? 10 : 14; }

std::string drafter_line(const drafter_figures& d, std::size_t columns) {
  return line_of({{"  drafter " + padded(shown(d.name), part_width(columns))},
                  {format(" %9.1f rounds/s", d.rounds_per_second), 2},
                  {format(" %9.1f drafted/s", d.drafted_per_second), 3},
                  {format("  accepted %5s", percent(d.acceptance).c_str()), 1},
                  {" (" + percent(d.acceptance_so_far) + " since the start)", 4}},
                 columns);
}

std::string pool_line(const pool_figures& p, std::size_t columns) {
  constexpr std::size_t shortest = 5;
  constexpr std::size_t longest = 20;
  std::vector<line_part> parts{
      {"  pool    " + padded(shown(p.name), part_width(columns))},
      {" " + number(p.active) + " active", 1},
      {", " + number(p.cached) + " cached", 3},
      {", " + number(p.free) + " free of " + number(p.all) + " blocks", 2},
  };
  std::size_t taken = std::string_view(" []").size();
  for (const auto& part : parts) taken += display_width(part.text);
  if (taken + shortest <= columns)
    parts.insert(parts.begin() + 1, {" " + bar(p, std::min(columns - taken, longest)), 4});
  return line_of(std::move(parts), columns);
}

std::string model_lines(const model_figures& m, const text_table& models, std::size_t columns) {
  std::string out =
      models.row(shown(m.name), {number(m.running), number(m.waiting), rate(m.tokens_per_second),
                                 rate(m.prompt_tokens_per_second), rate(m.rounds_per_second),
                                 ratio(m.tokens_per_second, m.rounds_per_second), percent(m.acceptance)});
  for (const auto& drafter : m.drafters)
    if (drafter.acceptance_so_far) out += drafter_line(drafter, columns); // otherwise it has never drafted
  for (const auto& pool : m.pools) out += pool_line(pool, columns);
  return out;
}

std::string stream_line(const stream_figures& s, const text_table& streams) {
  const double per_second = s.age > 0 ? static_cast<double>(s.output_tokens) / s.age : 0;
  return streams.row(shown(s.model),
                     {duration(s.age), number(s.prompt_tokens), number(s.output_tokens), rate(per_second),
                      ratio(static_cast<double>(s.output_tokens), static_cast<double>(s.rounds))});
}

/// Two lines about the daemon as a whole.
std::string daemon_lines(const top_figures& f, const std::string& url, std::size_t columns) {
  const auto progress = f.state == "loading" ? format(" %.0f %%", 100 * f.load_progress) : std::string();
  return line_of({{"paceline " + shown(f.version)},
                  {" at " + url, 3},
                  {", " + shown(f.state) + progress, 1},
                  {", up " + duration(f.uptime), 2},
                  {", " + bytes(f.resident_bytes), 4}},
                 columns) +
         line_of({{"streams: " + number(f.num_streams)},
                  {", connections: " + number(f.connections), 1},
                  {" (WebSockets: " + number(f.websockets) + ")", 2}},
                 columns);
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
  std::string out = daemon_lines(f, url, columns);
  const auto models = table_of_models(columns);
  if (!f.models.empty()) out += "\n" + models.head();
  for (const auto& model : f.models) out += model_lines(model, models, columns);
  const auto streams = table_of_streams(columns);
  if (!f.streams.empty()) out += "\n" + streams.head();
  for (const auto& stream : f.streams) out += stream_line(stream, streams);
  return out;
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

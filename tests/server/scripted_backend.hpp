#pragma once

#include "server/edge_context.hpp"
#include "server/http/reply_channel.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace paceline::server {

/// Runs posted tasks, in order, when the test says so.
class queue_executor final : public serial_executor {
 public:
  void post(std::function<void()> task) override { tasks_.push_back(std::move(task)); }
  void run() {
    while (!tasks_.empty()) {
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
  }
  /// Runs only the first posted task.
  void run_one() {
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    task();
  }
  std::size_t num_waiting() const { return tasks_.size(); }

 private:
  std::deque<std::function<void()>> tasks_;
};

/// Runs jobs on the caller's thread, or refuses them.
class inline_jobs final : public job_pool {
 public:
  bool full = false;
  std::vector<job_traits> submitted;
  bool submit(std::function<void()> job, const job_traits& traits) override {
    submitted.push_back(traits);
    if (full) return false;
    job();
    return true;
  }
};

class byte_decoder final : public text_decoder {
 public:
  explicit byte_decoder(const model_view& model) : model_(model) {}
  std::string feed(token_id token) override { return model_.token_bytes(token); }
  std::string flush() override { return ""; }

 private:
  const model_view& model_;
};

/// A model whose tokens are bytes; 256 is BOS, and `marks` are further special tokens. The chat template
/// writes "role:content\n".
class byte_model final : public model_view {
 public:
  explicit byte_model(std::string name = "bytes") {
    limits_.name = std::move(name);
    limits_.vocab_size = 300;
    limits_.context_length = 64;
    limits_.eos_ids = {token_id{257}};
    limits_.drafters = {"none", "ngram"};
  }
  void set_context_length(std::uint32_t length) { limits_.context_length = length; }
  /// Takes tools, writes calls as Hermes does and thoughts between <think> and </think>.
  void speak_hermes() {
    takes_tools = thinks.any = true;
    format.calls = call_syntax::hermes;
    format.reasoning = wire::think_markers;
    set_context_length(4096);
  }
  bool has_template = true;
  bool takes_tools = false;
  template_reasoning thinks;
  wire::output_format format;
  std::vector<std::string> marks;      ///< spellings of the tokens from 258 on
  mutable std::size_t num_encoded = 0; ///< tokens made from text so far

  const wire::model_limits& limits() const noexcept override { return limits_; }
  const std::vector<std::string>& aliases() const noexcept override { return aliases_; }
  std::int64_t created() const noexcept override { return 1'763'718'000; }
  std::size_t num_places = 1000;
  std::size_t max_requests() const noexcept override { return num_places; }
  expected<std::vector<token_id>> encode(std::string_view text, bool add_special, bool parse_special,
                                         std::size_t max_tokens) const override {
    std::vector<token_id> tokens;
    if (add_special) tokens.emplace_back(256);
    while (!text.empty() && tokens.size() <= max_tokens) {
      const auto mark = std::find_if(marks.begin(), marks.end(),
                                     [&](const auto& m) { return parse_special && text.starts_with(m); });
      const bool is_mark = mark != marks.end();
      tokens.emplace_back(is_mark ? 258 + static_cast<int>(mark - marks.begin())
                                  : static_cast<unsigned char>(text.front()));
      text.remove_prefix(is_mark ? mark->size() : 1);
    }
    num_encoded += tokens.size();
    return tokens;
  }
  std::string decode(std::span<const token_id> tokens, bool skip_special) const override {
    std::string text;
    for (const auto token : tokens)
      if (token.value < 256 || !skip_special) text += token_bytes(token);
    return text;
  }
  std::unique_ptr<text_decoder> decoder() const override { return std::make_unique<byte_decoder>(*this); }
  std::optional<std::string> special_token(special_role role) const override {
    if (role == special_role::padding) return std::nullopt;
    return role == special_role::begin ? "<256>" : "<257>";
  }
  std::string token_bytes(token_id token) const override {
    if (token.value < 256) return {static_cast<char>(token.value)};
    const auto mark = static_cast<std::size_t>(token.value) - 258;
    return mark < marks.size() ? marks[mark] : "<" + to_string(token) + ">";
  }
  bool has_chat_template() const noexcept override { return has_template; }
  bool template_takes_tools() const noexcept override { return takes_tools; }
  const template_reasoning& reasoning() const noexcept override { return thinks; }
  const wire::output_format& outputs() const noexcept override { return format; }
  expected<std::shared_ptr<const token_constraint>>
  compile(const grammar::grammar_source& source) const override {
    compiled.push_back(source);
    if (source.text == "unsupported") return error{errc::unsupported, "#/not: not enforced"};
    if (!refused_part.empty() && source.text.find(refused_part) != std::string::npos)
      return error{errc::unsupported, "#: not enforced"};
    if (source.text == "invalid") return error{errc::invalid_argument, "#/type: unknown"};
    return constraint;
  }
  mutable std::vector<grammar::grammar_source> compiled;
  std::string refused_part;             ///< sources that contain it are not compiled; empty: none
  mutable boost::json::object rendered; ///< what the template was last given
  std::shared_ptr<const token_constraint> constraint;
  bool is_special(token_id token) const override { return token.value >= 256; }
  expected<std::string> render_chat(boost::json::object variables) const override {
    rendered = variables;
    std::string text;
    for (const auto& turn : variables.at("messages").as_array()) {
      const auto& content = turn.at("content");
      text += std::string(turn.at("role").as_string()) + ":" +
              (content.is_null() ? "" : std::string(content.as_string())) + "\n";
    }
    return text;
  }

 private:
  wire::model_limits limits_;
  std::vector<std::string> aliases_{"alias"};
};

/// An engine whose events the test sends.
class scripted_backend final : public backend {
 public:
  struct submission {
    generation_request request;
    event_sink sink;
    std::uint64_t credit = 0;
    bool paced = false; ///< the client grants credit
    bool cancelled = false;
  };
  byte_model bytes;
  std::unique_ptr<byte_model> other; ///< a second model "other", if there is one
  std::map<std::uint64_t, submission> submissions;
  bool alive = true;

  const model_view* model(std::string_view name) const noexcept override {
    if (other && name == "other") return other.get();
    return name.empty() || name == "default" || name == "bytes" || name == "alias" ? &bytes : nullptr;
  }
  std::vector<const model_view*> models() const override {
    if (other) return {&bytes, other.get()};
    return {&bytes};
  }
  request_id submit(generation_request request, event_sink sink, flow_control flow) override {
    const request_id id{++last_id_};
    submissions[id.value] = {std::move(request), std::move(sink), flow.initial_credit.value_or(0),
                             flow.initial_credit.has_value(), false};
    return id;
  }
  void cancel(request_id request) override { submissions.at(request.value).cancelled = true; }
  void grant(request_id request, std::uint32_t tokens) override {
    submissions.at(request.value).credit += tokens;
  }
  bool healthy() const noexcept override { return alive; }
  engine_snapshot snapshot() const override {
    engine_snapshot all;
    all.models.emplace_back().name = "bytes";
    all.models.back().drafters.push_back({"ngram", 4, 16, 8, {4, 4, 0, 0}, 0, 0, 0, {}});
    all.models.back().pools.push_back({"bytes", 10, 5, 1, 0, 4, 100, 60, 2});
    all.actors.push_back({"scheduler", 1, 2, 3});
    return all;
  }

  /// Sends the tokens of one round, as text and ids.
  void tokens(std::uint64_t id, std::string_view text) {
    auto event = token_text(id, text);
    if (submissions.at(id).request.stats_in_events) add_stats(event);
    submissions.at(id).sink(event);
  }
  void end(std::uint64_t id, finish_reason finish, std::string_view text = "") {
    auto event = token_text(id, text);
    event.finish = finish;
    if (finish != finish_reason::cancelled) add_stats(event);
    submissions.at(id).sink(event);
  }
  void fail(std::uint64_t id, errc code) {
    token_event event;
    event.finish = finish_reason::error;
    event.failure = error{code, "scripted"};
    submissions.at(id).sink(event);
  }

 private:
  static void add_stats(token_event& event) {
    event.timings = request_timings{std::chrono::milliseconds(1), std::chrono::milliseconds(2),
                                    std::chrono::milliseconds(30), 2};
    event.speculation = speculation_stats{2, 8, 5, {0, 0, 1, 1, 0}};
  }

  token_event token_text(std::uint64_t id, std::string_view text) {
    token_event event;
    event.request = request_id{id};
    event.text = text;
    for (const char c : text) {
      event.tokens.emplace_back(static_cast<unsigned char>(c));
      if (submissions.at(id).request.sampling.num_logprobs)
        event.logprobs.push_back(
            {event.tokens.back(), -0.5F, {{event.tokens.back(), -0.5F}, {token_id{'z'}, -1.5F}}});
    }
    return event;
  }

  std::uint64_t last_id_ = 0;
};

/// An edge with the scripted backend and small limits.
struct scripted_edge {
  config::server_options options;
  config::metrics_options metrics_options{true, true, false};
  settings_cell settings{edge_settings{{}, {}, options.request_timeout, true, false}};
  event_log log;
  edge_limits limits;
  scripted_backend engine;
  edge_metrics metrics{{"bytes"}};
  inline_jobs jobs;
  time_point now{};
  edge_context context{
      options,         metrics_options,       settings, limits, engine, metrics, jobs, jobs, log,
      "paceline-test", [this] { return now; }};
  std::shared_ptr<queue_executor> executor = std::make_shared<queue_executor>();
};

/// Records what a client was sent.
class recording_channel final : public reply_channel {
 public:
  std::optional<http_reply> replied;
  header_list stream_headers;
  bool streaming = false;
  bool finished = false;
  bool abandoned = false;
  bool in_pieces = false;
  bool full = false;
  int room = 0; ///< number of sends until it is full; 0 = as `full` says
  int num_sends = 0;
  std::size_t kept = 0;
  bool keeps_sources = false; ///< does not read sources until `release`
  std::vector<std::unique_ptr<wire::text_source>> sources;
  std::string bytes;

  void reply(http_reply reply) override {
    if (reply.shared_body) reply.body = *reply.shared_body;
    replied = std::move(reply);
  }
  void begin_stream(const header_list& headers) override {
    streaming = true;
    stream_headers = headers;
  }
  void begin_pieces(const header_list& headers) override {
    in_pieces = true;
    stream_headers = headers;
  }
  void send(std::string more) override {
    bytes += more;
    ++num_sends;
    if (room > 0 && --room == 0) full = true;
  }
  void send(std::unique_ptr<wire::text_source> more) override {
    if (keeps_sources) {
      sources.push_back(std::move(more));
      return;
    }
    while (!more->at_end()) send(more->next(1000));
  }
  void finish() override { finished = true; }
  void abandon() override { abandoned = true; }
  void keep(std::size_t count) override { kept = count; }
  bool congested() const override { return full; }

  std::size_t held_bytes() const {
    std::size_t count = 0;
    for (const auto& source : sources) count += source->num_bytes();
    return count;
  }
  std::vector<wire::text_source::shared_part> all_shared() const {
    std::vector<wire::text_source::shared_part> parts;
    for (const auto& source : sources)
      for (const auto& part : source->shared()) parts.push_back(part);
    return parts;
  }
  void release() {
    keeps_sources = false;
    for (auto& source : std::exchange(sources, {})) send(std::move(source));
  }

  /// The data of all events so far.
  std::vector<std::string> data() const {
    std::vector<std::string> lines;
    for (std::size_t at = 0; (at = bytes.find("data: ", at)) != std::string::npos;) {
      at += 6;
      lines.push_back(bytes.substr(at, bytes.find('\n', at) - at));
    }
    return lines;
  }
};

inline std::string header_of(const header_list& headers, std::string_view name) {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return "";
}

} // namespace paceline::server

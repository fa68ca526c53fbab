// GET /paceline/events: once a second, what runs at the moment.
#include "server/service.hpp"

#include "protocol/wire/json_writer.hpp"
#include "server/http/error_reply.hpp"
#include "server/http/http_writer.hpp"

#include <charconv>
#include <chrono>
#include <string_view>
#include <utility>

namespace paceline::server {

namespace {

constexpr std::size_t most_streams = 64; ///< maximum number of streams in one snapshot; all are counted
constexpr std::uint32_t most_snapshots = 1'000'000;

/// A client of the events. While it does not read, the newest snapshot is kept for it, and older ones are
/// dropped.
class event_exchange final : public exchange,
                             public event_watcher,
                             public std::enable_shared_from_this<event_exchange> {
 public:
  /// `limit` is the number of snapshots after which the stream ends; 0 means no limit.
  event_exchange(std::shared_ptr<reply_channel> channel, std::uint32_t limit)
      : channel_(std::move(channel)), limit_(limit) {}

  void begin(const header_list& headers) { channel_->begin_stream(headers); }

  void on_snapshot(const std::shared_ptr<const std::string>& text, bool is_last) override {
    if (!channel_) return;
    waiting_ = text;
    is_last_ = is_last;
    if (!channel_->congested()) send();
  }
  void on_writable() override {
    if (channel_ && waiting_) send();
  }
  void on_idle() override {}
  void on_shutdown() override { end(); }
  void on_disconnect() override { channel_.reset(); }

 private:
  void send() {
    channel_->send(write_sse("", *std::exchange(waiting_, nullptr)));
    if (is_last_ || ++num_sent_ == limit_) end();
  }
  void end() {
    if (channel_) std::exchange(channel_, nullptr)->finish();
  }

  std::shared_ptr<reply_channel> channel_;
  const std::uint32_t limit_;
  std::uint32_t num_sent_ = 0;
  std::shared_ptr<const std::string> waiting_; ///< the newest snapshot, while it cannot be sent
  bool is_last_ = false;                       ///< true if the newest snapshot is the last one
};

/// The `limit` of a request; nullopt if it is not valid.
std::optional<std::uint32_t> limit_of(const request_head& head) {
  const auto given = head.query_value("limit");
  if (!given) return 0;
  std::uint32_t limit = 0;
  const auto* end = given->data() + given->size();
  const auto [stop, failure] = std::from_chars(given->data(), end, limit);
  if (failure != std::errc{} || stop != end || limit == 0 || limit > most_snapshots) return std::nullopt;
  return limit;
}

void write_stream(wire::json_writer& out, const running_stream& stream, time_point now) {
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now - stream.arrival);
  out.begin_object()
      .field("model", stream.model)
      .field("age_ms", age.count())
      .field("prompt_tokens", stream.prompt_tokens)
      .field("output_tokens", stream.num_tokens.load(std::memory_order_relaxed))
      .field("rounds", stream.num_rounds.load(std::memory_order_relaxed))
      .end_object();
}

} // namespace

std::string service::snapshot_text(std::uint64_t number) const {
  const auto loading = edge_.runtime.loading();
  const auto now = edge_.now();
  wire::json_writer out;
  out.begin_object()
      .field("object", "paceline.snapshot")
      .field("number", number)
      .field("state", draining_ ? "draining"
                      : loading ? "loading"
                                : "serving")
      .field("load_progress", loading ? loading->share() : 1.0)
      .field("num_streams", edge_.streams->size())
      .key("streams")
      .begin_array();
  for (const auto& stream : edge_.streams->oldest(most_streams)) write_stream(out, *stream, now);
  return out.end_array().end_object().take();
}

std::shared_ptr<exchange> service::watch(const admitted_request& request,
                                         std::shared_ptr<reply_channel> channel, executor_ptr executor) {
  const header_list headers{{"x-request-id", request.who.request_id}};
  const auto refuse = [&](const wire::api_error& why) {
    channel->reply(error_reply(why, headers));
    return nullptr;
  };
  const auto limit = limit_of(request.head);
  if (!limit)
    return refuse(wire::invalid_value("limit", "limit: must be an integer from 1 to " +
                                                   std::to_string(most_snapshots)));
  if (request.head.method == "HEAD") {
    auto reply = json_reply("");
    reply.content_type = "text/event-stream";
    reply.headers = headers;
    channel->reply(std::move(reply));
    return nullptr;
  }
  const auto session = std::make_shared<event_exchange>(channel, *limit);
  // A client that asks for a single snapshot leaves at once, so clients that watch do not prevent it.
  if (!(*limit == 1 ? events_.look(session, executor) : events_.watch(session, executor)))
    return refuse(draining_ ? shutting_down()
                            : wire::api_error{503, "service_unavailable_error", "too_many_watchers",
                                              "enough clients watch the events already", "", 5});
  session->begin(headers);
  return session;
}

} // namespace paceline::server

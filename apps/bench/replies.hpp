#pragma once

#include "apps/bench/door.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps::bench {

// What a client of the daemon writes and reads (docs/protocol.md), without sockets. Replies are read when
// they have ended, so that reading them takes no time from the server.

/// An event as it reached the client: its JSON, or "[DONE]".
struct stamped_event {
  time_point time;
  std::string data;
};

/// Splits a body of server-sent events into their data, as its bytes come. Comments are dropped.
class sse_splitter {
 public:
  /// Bytes that were read at `time`: events that end in them have it.
  void add(std::string_view bytes, time_point time);
  std::vector<stamped_event> take() { return std::move(events_); }

 private:
  std::string rest_;
  std::vector<stamped_event> events_;
};

/// Where a request goes: the endpoint for conversations, or the one for plain prompts.
std::string_view completion_path(const errand& request);
/// Body of a request to `completion_path`. Token ids are asked for, so that the reply can be checked.
std::string completion_body(const errand& request, bool streamed);
/// Frame that asks for a response over a WebSocket. Fails for a plain prompt: the Responses API takes
/// conversations only.
expected<std::string> response_frame(const errand& request);
/// Whether `data` is the last event of a response.
bool ends_response(std::string_view data);

// Each leaves `sent` and `ended` to the caller. Errors: what the daemon refused, by its own words; a reply
// that is cut short, or counts other tokens than came, or was made of another prompt.
expected<delivery> read_completion_stream(const errand& request, std::span<const stamped_event> events);
expected<delivery> read_completion(const errand& request, std::string_view body);
expected<delivery> read_response_stream(const errand& request, std::span<const stamped_event> events);
/// The error of a reply with another status than 200.
error refusal(unsigned status, std::string_view body);

} // namespace paceline::apps::bench

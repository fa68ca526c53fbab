#pragma once

#include "apps/bench/door.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps::bench {

// The requests and replies of a client of the daemon (docs/protocol.md), without sockets. A reply is parsed
// after it has ended, so that parsing does not delay the reading of its events.

/// An event as received by the client: its JSON, or "[DONE]".
struct stamped_event {
  time_point time;
  std::string data;
};

/// Splits a body of server-sent events, as its bytes arrive, into the data of each event. Drops comments.
class sse_splitter {
 public:
  /// Adds bytes that were read at `time`. Events that end in these bytes get this time.
  void add(std::string_view bytes, time_point time);
  std::vector<stamped_event> take() { return std::move(events_); }

 private:
  std::string rest_;
  std::vector<stamped_event> events_;
};

/// The endpoint of a request: /v1/chat/completions for a conversation, /v1/completions for a plain prompt.
std::string_view completion_path(const errand& request);
/// Body of a request to `completion_path`. Asks for token ids, so that the reply can be checked.
std::string completion_body(const errand& request, bool streamed);
/// Frame that requests a response over a WebSocket. Error for a plain prompt: the Responses API takes
/// conversations only.
expected<std::string> response_frame(const errand& request);
/// True if `data` is the last event of a response.
bool ends_response(std::string_view data);

// These functions do not set `sent` and `ended`. Errors: the daemon refused the request or reported an error
// (with the daemon's message); the reply is not JSON, is incomplete, has no tokens, or ended for another
// reason than stop or length; its usage is missing or differs from the tokens received; its prompt tokens
// differ from those of the request.
expected<delivery> read_completion_stream(const errand& request, std::span<const stamped_event> events);
expected<delivery> read_completion(const errand& request, std::string_view body);
expected<delivery> read_response_stream(const errand& request, std::span<const stamped_event> events);
/// The error of a reply with a status other than 200.
error refusal(unsigned status, std::string_view body);

} // namespace paceline::apps::bench

#include "apps/bench/replies.hpp"

#include "protocol/wire/json_text.hpp"

#include <boost/json/parse.hpp>

namespace paceline::apps::bench {

namespace json = boost::json;

namespace {

constexpr std::string_view done_mark = "[DONE]";

void add_common_fields(json::object& out, const errand& request) {
  out["temperature"] = request.temperature;
  out["seed"] = request.seed;
  out["cache_salt"] = out["user"] = request.salt;
  json::object speculation{{"drafter", request.drafter}};
  if (request.draft_length) speculation["draft_length"] = *request.draft_length;
  if (request.overlap)
    speculation["overlap"] = overlap_request_names[static_cast<std::size_t>(*request.overlap)];
  out["speculation"] = std::move(speculation);
  out["paceline"] = json::object{{"token_ids", true}, {"trace", request.trace}};
}

/// Fields of a reply, any of which may be absent.
const json::value* find(const json::value& in, std::string_view name) {
  const auto* fields = in.if_object();
  return fields == nullptr ? nullptr : fields->if_contains(name);
}

std::uint64_t count_in(const json::value& in, std::string_view name) {
  const auto* value = find(in, name);
  return value == nullptr || !value->is_number() ? 0 : value->to_number<std::uint64_t>();
}

/// The text of a field; empty if it is missing or no string.
std::string_view text_in(const json::value& in, std::string_view name) {
  const auto* value = find(in, name);
  if (value == nullptr || !value->is_string()) return {};
  return {value->get_string().data(), value->get_string().size()};
}

std::vector<token_id> tokens_in(const json::value& in, std::string_view name) {
  std::vector<token_id> out;
  const auto* list = find(in, name);
  if (list != nullptr && list->is_array())
    for (const auto& id : list->get_array()) out.emplace_back(id.to_number<std::int32_t>());
  return out;
}

std::optional<speculation_stats> speculation_in(const json::value& reply) {
  const auto* metrics = find(reply, "metrics");
  const auto* figures = metrics == nullptr ? nullptr : find(*metrics, "speculative_decoding");
  if (figures == nullptr) return std::nullopt;
  speculation_stats out;
  const auto count = [&](std::string_view name) {
    return static_cast<std::uint32_t>(count_in(*figures, name));
  };
  out.num_rounds = count("num_spec_steps");
  out.num_full_rounds = count("num_full_spec_steps");
  out.num_draft_tokens = count("num_draft_tokens");
  out.num_accepted_tokens = count("num_accepted_draft_tokens");
  if (const auto* histogram = find(*figures, "acceptance_histogram"); histogram && histogram->is_array())
    for (const auto& rounds : histogram->get_array())
      out.acceptance_histogram.push_back(rounds.to_number<std::uint32_t>());
  return out;
}

/// The state while a reply is read.
struct reading {
  delivery out;
  std::optional<std::uint64_t> prompt_tokens, completion_tokens; ///< from the reply's usage
  std::vector<token_id> prompt;                                  ///< from the daemon, if it reports them
  std::string finish;
  bool is_done = false;

  void add_tokens(const std::vector<token_id>& tokens, time_point time) {
    if (tokens.empty()) return;
    out.tokens.insert(out.tokens.end(), tokens.begin(), tokens.end());
    out.arrivals.push_back({time, static_cast<std::uint32_t>(tokens.size())});
  }
  void add_totals(const json::value& reply, std::string_view input, std::string_view output) {
    const auto* usage = find(reply, "usage");
    if (usage == nullptr || !usage->is_object()) return;
    prompt_tokens = count_in(*usage, input);
    completion_tokens = count_in(*usage, output);
    out.speculation = speculation_in(reply);
  }
};

error wrong(const std::string& what) { return {errc::internal, "the daemon's reply " + what}; }

std::optional<error> error_in(const json::value& event) {
  const auto* failure = find(event, "error");
  if (failure == nullptr || failure->is_null()) return std::nullopt;
  return error(errc::internal, "the daemon failed a request: " + wire::json_text(*failure));
}

expected<json::value> parse(std::string_view text) {
  boost::system::error_code failed;
  auto value = json::parse(json::string_view(text.data(), text.size()), failed);
  if (failed) return wrong("is not JSON: " + std::string(text.substr(0, 200)));
  return value;
}

expected<delivery> checked(const errand& request, reading&& read) {
  if (read.finish != "stop" && read.finish != "length")
    return wrong("ended without a reason, or for \"" + read.finish + "\"");
  if (!read.is_done) return wrong("was cut short");
  if (!read.completion_tokens) return wrong("has no usage");
  const auto counts = [](const char* what, std::size_t ours, std::uint64_t theirs) {
    return wrong("counts " + std::to_string(theirs) + " " + what + " where " + std::to_string(ours) +
                 " were");
  };
  const auto& prompt = request.prompt->tokens;
  if (*read.completion_tokens != read.out.tokens.size())
    return counts("tokens", read.out.tokens.size(), *read.completion_tokens);
  if (*read.prompt_tokens != prompt.size())
    return counts("prompt tokens", prompt.size(), *read.prompt_tokens);
  if (!read.prompt.empty() && read.prompt != prompt) return wrong("was made of other prompt tokens");
  if (read.out.tokens.empty()) return wrong("has no tokens");
  return std::move(read.out);
}

/// A chunk of a stream, or a whole reply; their choices differ only in the name of the text field.
void read_choice(const json::value& reply, time_point time, reading& into) {
  if (auto prompt = tokens_in(reply, "prompt_token_ids"); !prompt.empty()) into.prompt = std::move(prompt);
  const auto* choices = find(reply, "choices");
  if (choices == nullptr || !choices->is_array() || choices->get_array().empty()) return;
  const auto& choice = choices->get_array().front();
  if (auto prompt = tokens_in(choice, "prompt_token_ids"); !prompt.empty()) into.prompt = std::move(prompt);
  into.out.text += text_in(choice, "text");
  for (const auto* part : {"delta", "message"})
    if (const auto* content = find(choice, part)) into.out.text += text_in(*content, "content");
  into.add_tokens(tokens_in(choice, "token_ids"), time);
  if (const auto finish = text_in(choice, "finish_reason"); !finish.empty()) into.finish = finish;
  const auto* ours = find(choice, "paceline");
  const auto* rounds = ours == nullptr ? nullptr : find(*ours, "rounds");
  if (rounds != nullptr && rounds->is_array()) into.out.num_rounds += rounds->get_array().size();
}

} // namespace

void sse_splitter::add(std::string_view bytes, time_point time) {
  constexpr std::string_view field = "data: ";
  rest_ += bytes;
  std::size_t begin = 0;
  for (std::size_t end; (end = rest_.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
    const auto event = std::string_view(rest_).substr(begin, end - begin);
    const auto data = event.starts_with(field) ? 0 : event.find("\n" + std::string(field));
    if (data == std::string_view::npos) continue;
    events_.push_back({time, std::string(event.substr(data + field.size() + (data == 0 ? 0 : 1)))});
  }
  rest_.erase(0, begin);
}

std::string_view completion_path(const errand& request) {
  return request.prompt->messages.empty() ? "/v1/completions" : "/v1/chat/completions";
}

std::string completion_body(const errand& request, bool streamed) {
  json::object body;
  if (request.prompt->messages.empty())
    body["prompt"] = request.prompt->text;
  else
    body["messages"] = request.prompt->messages;
  body["max_tokens"] = request.max_tokens;
  body["stream"] = streamed;
  if (streamed) body["stream_options"] = json::object{{"include_usage", true}};
  add_common_fields(body, request);
  return wire::json_text(body);
}

expected<std::string> response_frame(const errand& request) {
  if (request.prompt->messages.empty())
    return error(errc::unsupported, "the WebSocket mode takes conversations, and this workload has a plain "
                                    "\"prompt\": use \"messages\", or another --through");
  json::object frame{{"type", "response.create"}, {"input", request.prompt->messages}};
  frame["max_output_tokens"] = request.max_tokens;
  add_common_fields(frame, request);
  return wire::json_text(frame);
}

bool ends_response(std::string_view data) {
  const auto head = data.substr(0, 40); // the type is an event's first field
  for (const std::string_view type :
       {"response.completed", "response.incomplete", "response.failed", "error"})
    if (head.find("\"type\":\"" + std::string(type) + '"') != std::string_view::npos) return true;
  return false;
}

expected<delivery> read_completion_stream(const errand& request, std::span<const stamped_event> events) {
  reading into;
  for (const auto& event : events) {
    if (event.data == done_mark) {
      into.is_done = true;
      continue;
    }
    const auto chunk = parse(event.data);
    if (!chunk) return chunk.error();
    if (auto failure = error_in(*chunk)) return *std::move(failure);
    read_choice(*chunk, event.time, into);
    into.add_totals(*chunk, "prompt_tokens", "completion_tokens");
  }
  return checked(request, std::move(into));
}

expected<delivery> read_completion(const errand& request, std::string_view body) {
  const auto reply = parse(body);
  if (!reply) return reply.error();
  reading into;
  read_choice(*reply, {}, into);
  into.add_totals(*reply, "prompt_tokens", "completion_tokens");
  into.out.arrivals.clear(); // the arrival times of its tokens mean nothing
  into.is_done = true;
  return checked(request, std::move(into));
}

expected<delivery> read_response_stream(const errand& request, std::span<const stamped_event> events) {
  reading into;
  for (const auto& each : events) {
    const auto event = parse(each.data);
    if (!event) return event.error();
    if (auto failure = error_in(*event)) return *std::move(failure);
    const auto name = text_in(*event, "type");
    if (name == "response.output_text.delta") {
      into.out.text += text_in(*event, "delta");
      into.add_tokens(tokens_in(*event, "token_ids"), each.time);
    }
    into.out.num_rounds += name == "paceline.round" ? 1 : 0;
    const auto* response = find(*event, "response");
    if (response == nullptr || !ends_response(each.data)) continue;
    if (auto failure = error_in(*response)) return *std::move(failure);
    into.is_done = true;
    into.finish = name == "response.completed" ? "stop" : "length";
    if (text_in(*response, "status") == "cancelled") into.finish = "cancelled";
    into.add_totals(*response, "input_tokens", "output_tokens");
  }
  return checked(request, std::move(into));
}

error refusal(unsigned status, std::string_view body) {
  return {status == 400 ? errc::invalid_argument : errc::internal,
          "the daemon answered " + std::to_string(status) + ": " + std::string(body.substr(0, 1000))};
}

} // namespace paceline::apps::bench

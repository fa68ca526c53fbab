// The endpoints that create, read, cancel and delete responses.
#include "server/service.hpp"

#include "protocol/wire/input_items.hpp"
#include "protocol/wire/json_writer.hpp"
#include "server/http/long_reply.hpp"
#include "server/sessions/conversion.hpp"
#include "server/sessions/preparation.hpp"
#include "server/sessions/response_exchange.hpp"

#include <charconv>
#include <span>
#include <utility>

namespace paceline::server {

namespace {

using wire::api_error;

/// Decimal query value; none if it is not a decimal number.
template <class Int>
std::optional<Int> to_number(const std::string& text) {
  Int value{};
  const auto* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  return failure == std::errc{} && stop == end ? std::optional(value) : std::nullopt;
}

api_error unknown_response(const char* message) {
  return {404, "not_found_error", "response_not_found", message, "", 0};
}

/// A request for a response, and the response that it continues; null if there is none.
struct read_request {
  wire::response_request request;
  std::shared_ptr<const stored_response> previous;
};

wire::parsed<read_request> read_response_request(const response_services& services, const caller& who,
                                                 const request_body& body) {
  const auto& edge = services.edge;
  auto parsed = wire::parse_response_request(body.text, request_limits_of(edge));
  if (!parsed) return std::move(parsed).failure();
  if (parsed->options.resume)
    return wire::unsupported(
        "paceline.resume",
        "paceline.resume: belongs to the WebSocket mode; here it is GET /v1/responses/{id}?stream=true");
  read_request out{*std::move(parsed), nullptr};
  if (const auto& id = out.request.previous_response_id; !id.empty()) {
    out.previous = services.stored->find(id, who.tenant, edge.now());
    if (!out.previous) return unknown_previous(id);
  }
  if (auto unknown = resolve_references(services, who, out.request)) return *std::move(unknown);
  return out;
}

/// Reads a request for a response, and passes what `make` makes from it and from the conversation that it
/// continues to `done`, or an error. Runs in a job. If only the conversation is long, or what the input
/// refers to, `make` runs in a second job, because it is known only then that the job is large.
template <typename Make, typename Done>
void make_from_request(const response_services& services, const caller& who, request_body body, Make make,
                       Done done) {
  auto& edge = services.edge;
  if (auto gone = begin_reading(edge, body)) return done(*std::move(gone));
  const bool is_large = traits_of(edge, who, body.text.size()).large;
  auto read = read_response_request(services, who, body);
  // The text is freed here. The objects made from it exist until they are tokenized.
  auto place = std::exchange(body, {}).place;
  if (!read) return done(std::move(read).failure());
  auto again = traits_of(edge, who,
                         wire::text_bytes(read->request.input) +
                             (read->previous ? wire::text_bytes(read->previous->conversation) : 0));
  again.continues = true;
  again.large = again.large || may_compile(read->request);
  const bool is_longer = again.large && !is_large;
  auto rest = [make, done, place = std::move(place), read = *std::move(read)]() mutable {
    std::vector<wire::chat_message> history;
    if (read.previous) history = read.previous->conversation;
    done(make(std::move(read.request), std::move(history)));
  };
  if (!is_longer) return rest();
  if (edge.jobs.submit(std::move(rest), again)) return;
  ++edge.metrics.edge_rejections;
  done(overloaded());
}

/// Where a reader of events starts; a failure names the invalid query value.
wire::parsed<replay_start> replay_start_of(const request_head& head) {
  replay_start start;
  if (const auto text = head.query_value("starting_after")) {
    start.after_sequence = to_number<std::uint64_t>(*text);
    if (!start.after_sequence || *start.after_sequence >= 1ULL << 62U)
      return wire::invalid_value("starting_after", "starting_after: must be an event's sequence_number");
  } else if (const auto token = head.query_value("next_token")) {
    start.next_token = to_number<std::uint32_t>(*token);
    if (!start.next_token) return wire::invalid_value("next_token", "next_token: must be an output index");
  }
  return start;
}

} // namespace

std::shared_ptr<exchange> service::respond(const admitted_request& request, request_body body,
                                           std::shared_ptr<reply_channel> channel, executor_ptr executor) {
  const auto session =
      std::make_shared<response_exchange>(services_, executor, std::move(channel), request.who);
  const auto traits = traits_of(edge_, request.who, body.text.size());
  const auto start = [session, executor](wire::parsed<prepared_response> prepared) {
    executor->post(
        [session, prepared = std::move(prepared)]() mutable { session->start(std::move(prepared)); });
  };
  const auto prepare = [this, who = request.who](wire::response_request read,
                                                 std::vector<wire::chat_message> history) {
    return prepare_response(edge_, who, std::move(read), std::move(history));
  };
  return enqueue(session, traits,
                 [this, start, prepare, who = request.who, body = std::move(body)]() mutable {
                   make_from_request(services_, who, std::move(body), prepare, start);
                 });
}

void service::count_input(const caller& who, request_body body, text_receiver done) {
  const auto count = [this](wire::response_request read, std::vector<wire::chat_message> history) {
    return input_count_reply(edge_, std::move(read), std::move(history));
  };
  make_from_request(services_, who, std::move(body), count, std::move(done));
}

std::shared_ptr<exchange> service::read_response(const admitted_request& request,
                                                 std::shared_ptr<reply_channel> channel,
                                                 executor_ptr executor) {
  const auto refuse = [&](const api_error& failure) {
    channel->reply(error_reply(failure, {{"x-request-id", request.who.request_id}}));
    return std::shared_ptr<exchange>();
  };
  const auto& id = request.where.id;
  // In this order, a response that ends meanwhile is found.
  const auto running = registry_.in_progress(id, request.who.tenant);
  const auto log = registry_.log(id, request.who.tenant);
  const auto ended = find_ended(services_, request.who, id);
  if (!ended && !running) return refuse(unknown_response("no response of this id is kept"));
  if (request.head.method == "HEAD" || request.head.query_value("stream") != "true") {
    reply_made(*channel, (ended ? ended : running)->open(), {{"x-request-id", request.who.request_id}});
    return nullptr;
  }
  if (!log)
    return refuse(
        {400, "invalid_request_error", "resume_point_lost",
         "the events of this response are not kept; those of responses with paceline.resumable are, "
         "for a while",
         "stream", 0});
  const auto start = replay_start_of(request.head);
  if (!start) return refuse(start.failure());
  const auto session =
      std::make_shared<response_exchange>(services_, executor, std::move(channel), request.who);
  session->resume(id, *start);
  return session;
}

void service::list_input(const admitted_request& request, reply_channel& channel) {
  const header_list headers{{"x-request-id", request.who.request_id}};
  const auto refuse = [&](const api_error& failure) { channel.reply(error_reply(failure, headers)); };
  const auto stored = services_.stored->find(request.where.id, request.who.tenant, edge_.now());
  if (!stored) return refuse(unknown_response("no response of this id is kept"));
  wire::item_page page;
  if (const auto text = request.head.query_value("limit")) {
    page.limit = to_number<std::size_t>(*text).value_or(0);
    if (page.limit < 1 || page.limit > 100)
      return refuse(wire::invalid_value("limit", "limit: must be an integer from 1 to 100"));
  }
  if (const auto order = request.head.query_value("order")) {
    page.newest_first = *order == "desc";
    if (!page.newest_first && *order != "asc")
      return refuse(wire::invalid_value("order", "order: must be \"asc\" or \"desc\""));
  }
  page.after = request.head.query_value("after").value_or("");
  const auto turns = std::span(stored->conversation).first(stored->num_input_turns);
  const auto list = wire::input_item_list(request.where.id, turns, page);
  if (!list) return refuse(wire::invalid_value("after", "after: is no item of this response"));
  reply_made(channel, list->open(), headers);
}

void service::cancel_response(const admitted_request& request, reply_channel& channel) {
  const header_list headers{{"x-request-id", request.who.request_id}};
  const auto& id = request.where.id;
  // In this order, a response that ends meanwhile is found.
  const auto cancelled = registry_.cancel(id, request.who.tenant);
  const auto ended = find_ended(services_, request.who, id);
  if (!cancelled && !ended)
    return channel.reply(error_reply(unknown_response("no response of this id runs or is kept"), headers));
  reply_made(channel, (ended ? ended : cancelled)->open(), headers);
}

http_reply service::delete_response(const admitted_request& request) {
  const auto& id = request.where.id;
  const auto log = registry_.log(id, request.who.tenant);
  if (log && !log->result())
    return error_reply({409, "conflict_error", "response_in_progress",
                        "the response is not finished; cancel it first", "", 0});
  if (log) registry_.evict(id);
  if (!services_.stored->remove(id, request.who.tenant, edge_.now()) && !log)
    return error_reply(unknown_response("no response of this id is kept"));
  wire::json_writer out;
  out.begin_object().field("id", id).field("object", "response").field("deleted", true);
  return json_reply(out.end_object().take());
}

} // namespace paceline::server

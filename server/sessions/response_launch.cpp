#include "server/sessions/response_launch.hpp"

#include <utility>

namespace paceline::server {

namespace {

wire::api_error not_found(const std::string& id) {
  return {404,
          "not_found_error",
          "response_not_found",
          "no resumable response has the id \"" + id + "\"",
          "response_id",
          0};
}

wire::api_error out_of_reach() {
  return {400,
          "invalid_request_error",
          "resume_point_lost",
          "the events before that point are no longer kept",
          "next_token",
          0};
}

} // namespace

store_limits store_limits_of(const edge_context& edge) {
  return {edge.limits.max_responses_of_key, edge.limits.max_stored_bytes, edge.options.response_ttl};
}

std::optional<wire::api_error> resolve_references(const response_services& services, const caller& who,
                                                  wire::response_request& request) {
  return wire::resolve_references(request, services.edge.options.max_body_bytes, [&](const std::string& id) {
    return services.stored->find_item(id, who.tenant, services.edge.now());
  });
}

std::shared_ptr<const wire::output_json> find_ended(const response_services& services, const caller& who,
                                                    const std::string& id) {
  if (const auto stored = services.stored->find(id, who.tenant, services.edge.now()))
    return {stored, &stored->object};
  const auto log = services.registry.log(id, who.tenant);
  const auto result = log ? log->result() : nullptr;
  if (!result) return nullptr;
  return {result, &result->object};
}

void told_response::on_writable() {
  if (session_) session_->on_writable();
  if (reader_) reader_->on_writable();
}

bool told_response::fail(const wire::api_error& why) {
  const auto session = session_; // its listener releases it when it has ended
  return session && session->fail(why);
}

void told_response::leave(response_registry& registry) {
  if (session_) {
    registry.remove(session_->id());
    if (!session_->finished()) session_->abandon();
  }
  session_.reset();
  reader_.reset();
}

wire::parsed<told_response> launch(const response_services& services, const caller& who,
                                   executor_ptr executor, std::shared_ptr<replay_sink> sink,
                                   prepared_response prepared, std::string stream_id, time_point arrival) {
  told_response told;
  const bool resumable = prepared.request.options.resumable;
  const bool streamed = prepared.request.fields.stream;
  auto id = fresh_id("resp_");
  response_registry::entry entry;
  entry.tenant = who.tenant;
  entry.executor = resumable ? services.make_executor() : executor;
  std::weak_ptr<response_listener> listener = sink;
  if (resumable)
    listener = entry.log = std::make_shared<replay_log>(services.edge.limits.max_replay_bytes, streamed);
  const auto log = entry.log;
  if (log)
    log->keep_in(services.kept, services.kept->open(
                                    who.tenant, [&registry = services.registry, id] { registry.evict(id); }));
  const auto session_executor = entry.executor;
  const auto session =
      std::make_shared<response_session>(services.edge, session_executor, listener, std::move(prepared),
                                         who.tenant, id, std::move(stream_id), arrival);
  session->keep_in(services.stored);
  entry.session = session;
  const auto object = [&](const char* status) {
    return std::make_shared<const wire::output_json>(session->object_without_output(status));
  };
  entry.in_progress = object("in_progress");
  entry.cancelled = object("cancelled");
  if (resumable) entry.kept = session;
  if (!services.registry.add(id, std::move(entry), services.edge.num_tenants()))
    return wire::api_error{429,
                           "rate_limit_error",
                           "too_many_resumable",
                           "no more resumable responses can be kept now",
                           "paceline.resumable",
                           5};
  if (!resumable) {
    told.session_ = session;
    executor->post([session] { session->start(); });
    return told;
  }
  log->on_room([weak = std::weak_ptr(session), session_executor] {
    session_executor->post([weak] {
      if (const auto running = weak.lock()) running->on_writable();
    });
  });
  told.reader_ = std::make_shared<replay_reader>(services.edge, executor, log, sink);
  told.reader_->start({std::nullopt, std::nullopt, !streamed});
  session_executor->post([session] { session->start(); });
  return told;
}

wire::parsed<told_response> resume(const response_services& services, const caller& who,
                                   executor_ptr executor, std::shared_ptr<replay_sink> sink,
                                   const std::string& response_id, const replay_start& start) {
  const auto log = services.registry.log(response_id, who.tenant);
  if (!log) return not_found(response_id);
  told_response told;
  told.reader_ = std::make_shared<replay_reader>(services.edge, executor, log, sink);
  if (!told.reader_->start(start)) return out_of_reach();
  return told;
}

} // namespace paceline::server

#pragma once

#include "server/edge_context.hpp"
#include "server/http/access.hpp"
#include "server/http/error_reply.hpp"
#include "server/http/reply_channel.hpp"
#include "server/http/request_body.hpp"
#include "server/http/request_head.hpp"
#include "server/http/router.hpp"
#include "server/metrics/event_desk.hpp"
#include "server/metrics/scrape_desk.hpp"
#include "server/sessions/response_launch.hpp"
#include "server/sessions/websocket_session.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace paceline::server {

/// A request that has passed all checks that are made before its body is read.
struct admitted_request {
  route where;
  caller who;
  request_head head;
  header_list cors;                 ///< headers that let a page of the request's origin read the reply
  std::uint64_t max_body_bytes = 0; ///< largest body that may arrive
};

/// The answer to a request from its head alone: an error, or the reply to OPTIONS.
struct answered_request {
  http_reply reply;
  bool close = false; ///< the request has a body, which is not read, so the connection must be closed
};

/// The server without sockets: checks heads, answers requests, opens WebSocket sessions. Thread-safe;
/// sessions run on the executor of their connection.
class service {
 public:
  /// `open_session` makes the sessions of WebSockets; empty: sessions of the Responses API.
  service(edge_context& edge, std::function<executor_ptr()> make_executor,
          frame_session_factory open_session = {});

  /// Decides from the head alone: checks Host, Origin, path, method, key, content type and length, and that
  /// the models are loaded if the endpoint needs them.
  std::variant<admitted_request, answered_request> admit(request_head head) const;

  /// Answers the request on `channel`. Must be called on `executor`. Returns the exchange that continues the
  /// answer, or null if the answer is complete.
  std::shared_ptr<exchange> handle(const admitted_request& request, request_body body,
                                   std::shared_ptr<reply_channel> channel, executor_ptr executor);

  std::shared_ptr<frame_session> open_websocket(const caller& who, std::shared_ptr<frame_channel> channel,
                                                executor_ptr executor);

  /// From now on new generations and /readyz are answered with 503.
  void begin_drain() {
    draining_ = true;
    events_.publish(true); // otherwise the clients of /paceline/events would delay the drain
  }
  bool draining() const noexcept { return draining_; }
  /// Must be called about once a second: drops expired responses and publishes a snapshot to the clients of
  /// /paceline/events.
  void tick() {
    registry_.sweep(edge_.now());
    services_.stored->sweep(edge_.now());
    events_.publish();
  }
  /// Ends all responses in the registry and drops all stored responses. Both outlive their connections.
  void clear() {
    registry_.clear();
    services_.stored->clear();
  }

  edge_context& edge() noexcept { return edge_; }

 private:
  using text_receiver = std::function<void(wire::parsed<std::unique_ptr<wire::text_source>>)>;

  // service_admission.cpp
  /// Fills `who` from the API key in the head. Error: there is no valid key.
  std::optional<wire::api_error> identify(const request_head& head, const edge_settings& settings,
                                          caller& who) const;
  /// Runs `job` on a thread of edge_pool. If the server is shutting down, or too many jobs wait, passes the
  /// error to `Session::start` instead, and returns null.
  template <class Session, class Job>
  std::shared_ptr<exchange> enqueue(const std::shared_ptr<Session>& session, const job_traits& traits,
                                    Job job);
  /// Runs `prepare` on a thread of edge_pool, and then starts the session with its result, on the session's
  /// executor.
  template <class Session, class Prepare>
  std::shared_ptr<exchange> begin(const std::shared_ptr<Session>& session, executor_ptr executor,
                                  const job_traits& traits, Prepare prepare);
  std::shared_ptr<exchange> complete(const admitted_request& request, request_body body,
                                     std::shared_ptr<reply_channel> channel, executor_ptr executor);
  std::shared_ptr<exchange> say(const admitted_request& request, request_body body,
                                std::shared_ptr<reply_channel> channel, executor_ptr executor);
  std::shared_ptr<exchange> convert(const admitted_request& request, request_body body,
                                    std::shared_ptr<reply_channel> channel, executor_ptr executor);
  std::shared_ptr<exchange> scrape(const admitted_request& request, std::shared_ptr<reply_channel> channel,
                                   executor_ptr executor);
  // service_events.cpp
  std::shared_ptr<exchange> watch(const admitted_request& request, std::shared_ptr<reply_channel> channel,
                                  executor_ptr executor);
  std::string snapshot_text(std::uint64_t number) const;
  // service_responses.cpp
  std::shared_ptr<exchange> respond(const admitted_request& request, request_body body,
                                    std::shared_ptr<reply_channel> channel, executor_ptr executor);
  std::shared_ptr<exchange> read_response(const admitted_request& request,
                                          std::shared_ptr<reply_channel> channel, executor_ptr executor);
  void list_input(const admitted_request& request, reply_channel& channel);
  /// Runs in a job. Calls `done` once, possibly in a later job.
  void count_input(const caller& who, request_body body, text_receiver done);
  void cancel_response(const admitted_request& request, reply_channel& channel);
  http_reply delete_response(const admitted_request& request);
  // service_models.cpp
  http_reply list_models() const;
  http_reply describe_model(const std::string& name) const;
  http_reply describe_tokenizer(const admitted_request& request) const;
  // service.cpp
  http_reply liveness() const;
  http_reply readiness() const;

  edge_context& edge_;
  response_registry registry_;
  response_services services_;
  frame_session_factory open_session_;
  std::shared_ptr<scrape_desk> scrapes_;
  event_desk events_;
  std::atomic<bool> draining_{false};
};

template <class Session, class Job>
std::shared_ptr<exchange> service::enqueue(const std::shared_ptr<Session>& session, const job_traits& traits,
                                           Job job) {
  if (draining_) {
    session->start(shutting_down());
    return nullptr;
  }
  if (edge_.jobs.submit(std::move(job), traits)) return session;
  ++edge_.metrics.edge_rejections;
  session->start(overloaded());
  return nullptr;
}

template <class Session, class Prepare>
std::shared_ptr<exchange> service::begin(const std::shared_ptr<Session>& session, executor_ptr executor,
                                         const job_traits& traits, Prepare prepare) {
  return enqueue(session, traits,
                 [session, executor = std::move(executor), prepare = std::move(prepare)]() mutable {
                   auto prepared = prepare();
                   executor->post([session, prepared = std::move(prepared)]() mutable {
                     session->start(std::move(prepared));
                   });
                 });
}

} // namespace paceline::server

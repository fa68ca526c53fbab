#pragma once

#include "server/sessions/kept_memory.hpp"
#include "server/sessions/replay_reader.hpp"
#include "server/sessions/response_registry.hpp"
#include "server/sessions/response_store.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

namespace paceline::server {

/// The limits of the store of finished responses.
store_limits store_limits_of(const edge_context& edge);

/// The objects that response sessions share: the edge, the registry of responses, a maker of executors that
/// outlive a connection, and the store of finished responses.
struct response_services {
  const edge_context& edge;
  response_registry& registry;
  std::function<executor_ptr()> make_executor;
  std::shared_ptr<kept_memory> kept = std::make_shared<kept_memory>(kept_memory::no_bound);
  std::shared_ptr<response_store> stored = std::make_shared<response_store>(store_limits_of(edge), kept);
};

/// Replaces references to items of stored responses in the input by these items; an error if one is unknown.
std::optional<wire::api_error> resolve_references(const response_services& services, const caller& who,
                                                  wire::response_request& request);

/// The object of a response that has ended and is kept, as a stored response or as a resumable one. Null if
/// the tenant has none of this id.
std::shared_ptr<const wire::output_json> find_ended(const response_services& services, const caller& who,
                                                    const std::string& id);

/// A response that is being sent to one client: directly from its session, or, if it is resumable, from its
/// log.
class told_response {
 public:
  void on_writable();
  /// The client is gone: a direct response ends, a resumable one continues.
  void leave(response_registry& registry);
  /// Ends a direct response with error events. False if no response is being sent, or if the response is
  /// resumable, has not started or has ended.
  [[nodiscard]] bool fail(const wire::api_error& why);
  bool active() const noexcept { return session_ || reader_; }

 private:
  friend wire::parsed<told_response> launch(const response_services&, const caller&, executor_ptr,
                                            std::shared_ptr<replay_sink>, prepared_response, std::string,
                                            time_point);
  friend wire::parsed<told_response> resume(const response_services&, const caller&, executor_ptr,
                                            std::shared_ptr<replay_sink>, const std::string&,
                                            const replay_start&);
  std::shared_ptr<response_session> session_;
  std::shared_ptr<replay_reader> reader_;
};

/// Starts a prepared response for `sink` on `executor`; a resumable response runs on an executor of its own.
/// Must be called on `executor`. The sink receives events only in tasks posted to `executor`, so never before
/// this function returns. Error: 429 if there is no place for a resumable response.
wire::parsed<told_response> launch(const response_services& services, const caller& who,
                                   executor_ptr executor, std::shared_ptr<replay_sink> sink,
                                   prepared_response prepared, std::string stream_id, time_point arrival);

/// Continues sending a resumable response. Errors: 404 if the tenant has no resumable response of this id;
/// 400 if the events from `start` on are no longer kept.
wire::parsed<told_response> resume(const response_services& services, const caller& who,
                                   executor_ptr executor, std::shared_ptr<replay_sink> sink,
                                   const std::string& response_id, const replay_start& start);

} // namespace paceline::server

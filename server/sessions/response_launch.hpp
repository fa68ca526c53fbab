#pragma once

#include "server/sessions/kept_memory.hpp"
#include "server/sessions/replay_reader.hpp"
#include "server/sessions/response_registry.hpp"

#include <functional>
#include <memory>
#include <string>
#include <variant>

namespace paceline::server {

/// What response sessions need besides the edge: a register of names, and executors that outlive a
/// connection.
struct response_services {
  const edge_context& edge;
  response_registry& registry;
  std::function<executor_ptr()> make_executor;
  std::shared_ptr<kept_memory> kept = std::make_shared<kept_memory>(kept_memory::no_bound);
};

/// A response being told to one client: directly, or through the log of a resumable one.
class told_response {
 public:
  void on_writable();
  /// Client gone: a direct response ends, a resumable one goes on.
  void leave(response_registry& registry);
  /// Ends a direct response with its failing events. False if there is none, or it belongs to a log.
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

/// Starts a prepared response for `sink` on `executor`; if it asks to be resumable, on an executor of its
/// own. The sink hears of it by posted tasks only, never before this returns.
wire::parsed<told_response> launch(const response_services& services, const caller& who,
                                   executor_ptr executor, std::shared_ptr<replay_sink> sink,
                                   prepared_response prepared, std::string stream_id, time_point arrival);

/// Goes on telling a resumable response.
wire::parsed<told_response> resume(const response_services& services, const caller& who,
                                   executor_ptr executor, std::shared_ptr<replay_sink> sink,
                                   const std::string& response_id, const replay_start& start);

} // namespace paceline::server

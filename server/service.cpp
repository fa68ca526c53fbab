#include "server/service.hpp"

#include "server/http/error_reply.hpp"
#include "server/http/http_writer.hpp"
#include "server/http/long_reply.hpp"
#include "server/openapi/document.hpp"
#include "server/page/page.hpp"
#include "server/sessions/completion_session.hpp"
#include "server/sessions/conversion.hpp"
#include "server/sessions/message_session.hpp"
#include "server/sessions/response_exchange.hpp"

#include <utility>

namespace paceline::server {

namespace {

/// Adds headers, counts the status and logs the request on the way out.
class finishing_channel final : public reply_channel {
 public:
  finishing_channel(std::shared_ptr<reply_channel> inner, const admitted_request& request, edge_context& edge)
      : inner_(std::move(inner)), headers_(request.cors), edge_(edge), target_(request.where.target),
        request_id_(request.who.request_id), begin_(edge.now()) {}

  void reply(http_reply reply) override {
    edge_.metrics.count_reply(target_, reply.status);
    log(reply.status);
    reply.headers.insert(reply.headers.end(), headers_.begin(), headers_.end());
    inner_->reply(std::move(reply));
  }
  void begin_stream(const header_list& headers) override {
    edge_.metrics.count_reply(target_, 200);
    inner_->begin_stream(with_ours(headers));
  }
  void begin_pieces(const header_list& headers) override {
    edge_.metrics.count_reply(target_, 200);
    inner_->begin_pieces(with_ours(headers));
  }
  void send(std::string bytes) override { inner_->send(std::move(bytes)); }
  void send(std::unique_ptr<wire::text_source> bytes) override { inner_->send(std::move(bytes)); }
  void finish() override {
    log(200);
    inner_->finish();
  }
  void abandon() override {
    log(200);
    inner_->abandon();
  }
  void keep(std::size_t bytes) override { inner_->keep(bytes); }
  bool congested() const override { return inner_->congested(); }

 private:
  header_list with_ours(header_list headers) const {
    headers.insert(headers.end(), headers_.begin(), headers_.end());
    return headers;
  }

  /// Writes a log line for debugging, or for a failure of the server. The line omits the path, because it may
  /// contain a response's id, and knowing an id gives access to the response.
  void log(int status) {
    const auto level = status == 500 ? config::log_level::error : config::log_level::debug;
    if (!edge_.log.wants(level)) return;
    const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(edge_.now() - begin_);
    edge_.log.write(level, "request",
                    {{"endpoint", to_string(target_)},
                     {"status", status},
                     {"ms", time.count()},
                     {"request_id", request_id_}});
  }

  std::shared_ptr<reply_channel> inner_;
  header_list headers_;
  edge_context& edge_;
  endpoint target_;
  std::string request_id_;
  time_point begin_;
};

/// A request that is answered by one job on an edge thread.
class job_exchange final : public exchange {
 public:
  /// `headers`: of every reply.
  job_exchange(std::shared_ptr<reply_channel> channel, header_list headers,
               error_form form = error_form::openai)
      : channel_(std::move(channel)), headers_(std::move(headers)), form_(form) {}
  void fail(const wire::api_error& failure) {
    if (channel_) std::exchange(channel_, nullptr)->reply(error_reply(failure, headers_, form_));
  }
  void finish(http_reply reply) {
    reply.headers.insert(reply.headers.end(), headers_.begin(), headers_.end());
    if (channel_) std::exchange(channel_, nullptr)->reply(std::move(reply));
  }
  void finish(std::unique_ptr<wire::text_source> body) {
    if (channel_) reply_made(*std::exchange(channel_, nullptr), std::move(body), headers_);
  }
  void on_writable() override {}
  void on_idle() override {}
  void on_shutdown() override { fail(shutting_down()); }
  void on_disconnect() override { channel_.reset(); }

 private:
  std::shared_ptr<reply_channel> channel_;
  header_list headers_;
  error_form form_;
};

/// An error that also contains the figures of the load.
http_reply progress_reply(const load_status& status) {
  const auto failure = still_loading(status);
  wire::json_writer out;
  out.begin_object().key("error");
  wire::write_error(out, failure);
  out.field("status", "loading").field("progress", status.share()).key("parts").begin_array();
  for (const auto& part : status.parts) {
    out.begin_object().field("model", part.model);
    if (!part.drafter.empty()) out.field("drafter", part.drafter);
    out.field("bytes_read", part.bytes_read).field("num_bytes", part.num_bytes).end_object();
  }
  auto reply = error_reply(failure);
  reply.body = out.end_array().end_object().take();
  return reply;
}

} // namespace

service::service(edge_context& edge, std::function<executor_ptr()> make_executor,
                 frame_session_factory open_session)
    : edge_(edge), registry_(edge.limits.max_replays, edge.limits.replay_retention),
      services_{edge_, registry_, std::move(make_executor),
                std::make_shared<kept_memory>(edge.options.kept_memory_bytes)},
      open_session_(std::move(open_session)),
      scrapes_(std::make_shared<scrape_desk>(edge.scrape_jobs,
                                             [this, &edge, kept = services_.kept] {
                                               const auto loading = edge.runtime.loading();
                                               edge.metrics.load_share = loading ? loading->share() : 1.0;
                                               edge.metrics.event_watchers = events_.num_watchers();
                                               edge.metrics.log_lines_dropped = edge.log.num_dropped();
                                               edge.metrics.kept_bytes = kept->num_bytes();
                                               edge.metrics.kept_evictions = kept->num_evicted();
                                               return edge.metrics.text(edge.runtime.snapshot(),
                                                                        edge.settings.get()->vllm_names);
                                             })),
      events_(edge.limits.max_watchers, [this](std::uint64_t number) { return snapshot_text(number); }) {}

std::shared_ptr<exchange> service::handle(const admitted_request& request, request_body body,
                                          std::shared_ptr<reply_channel> raw, executor_ptr executor) {
  const auto target = request.where.target;
  auto channel = std::make_shared<finishing_channel>(std::move(raw), request, edge_);
  const auto answer = [&](http_reply reply) {
    reply.headers.emplace_back("x-request-id", request.who.request_id);
    channel->reply(std::move(reply));
    return std::shared_ptr<exchange>();
  };
  switch (target) {
  case endpoint::completions:
  case endpoint::chat_completions:
    return complete(request, std::move(body), channel, std::move(executor));
  case endpoint::messages:
    return say(request, std::move(body), channel, std::move(executor));
  case endpoint::create_response:
    return respond(request, std::move(body), channel, std::move(executor));
  case endpoint::get_response:
    return read_response(request, channel, std::move(executor));
  case endpoint::input_items:
    list_input(request, *channel);
    return nullptr;
  case endpoint::tokenize:
  case endpoint::detokenize:
  case endpoint::count_tokens:
  case endpoint::count_input:
    return convert(request, std::move(body), channel, std::move(executor));
  case endpoint::cancel_response:
    cancel_response(request, *channel);
    return nullptr;
  case endpoint::delete_response:
    return answer(delete_response(request));
  case endpoint::models:
    return answer(list_models());
  case endpoint::model:
    return answer(describe_model(request.where.id));
  case endpoint::tokenizer_info:
    return answer(describe_tokenizer(request));
  case endpoint::live:
    return answer(liveness());
  case endpoint::ready:
    return answer(readiness());
  case endpoint::metrics:
    return scrape(request, channel, std::move(executor));
  case endpoint::events:
    return watch(request, channel, std::move(executor));
  case endpoint::openapi: {
    http_reply reply;
    reply.shared_body = openapi_document();
    return answer(std::move(reply));
  }
  case endpoint::page:
    return answer(page_reply(page_index, request.head.header("if-none-match")));
  case endpoint::page_file:
    return answer(page_reply(request.where.id, request.head.header("if-none-match")));
  case endpoint::response_socket:
    break; // the request became a WebSocket before
  }
  return answer(error_reply(
      {426, "invalid_request_error", "upgrade_required", "this is the WebSocket endpoint", "", 0}));
}

std::shared_ptr<exchange> service::complete(const admitted_request& request, request_body body,
                                            std::shared_ptr<reply_channel> channel, executor_ptr executor) {
  const auto session = std::make_shared<completion_session>(edge_, executor, std::move(channel), request.who);
  const bool chat = request.where.target == endpoint::chat_completions;
  const auto traits = generation_traits(edge_, request.who, body.text);
  auto prepare = [this, chat, who = request.who, model = request.where.id,
                  body = std::move(body)]() -> wire::parsed<prepared_completion> {
    if (auto gone = begin_reading(edge_, body)) return *std::move(gone);
    return chat ? prepare_chat(edge_, who, body.text, model)
                : prepare_completion(edge_, who, body.text, model);
  };
  return begin(session, std::move(executor), traits, std::move(prepare));
}

std::shared_ptr<exchange> service::say(const admitted_request& request, request_body body,
                                       std::shared_ptr<reply_channel> channel, executor_ptr executor) {
  const auto session = std::make_shared<message_session>(edge_, executor, std::move(channel), request.who);
  const auto traits = generation_traits(edge_, request.who, body.text);
  auto prepare = [this, who = request.who, model = request.where.id,
                  body = std::move(body)]() -> wire::parsed<prepared_completion> {
    if (auto gone = begin_reading(edge_, body)) return *std::move(gone);
    return prepare_message(edge_, who, body.text, model);
  };
  return begin(session, std::move(executor), traits, std::move(prepare));
}

std::shared_ptr<exchange> service::convert(const admitted_request& request, request_body body,
                                           std::shared_ptr<reply_channel> channel, executor_ptr executor) {
  const auto form = error_form_of(request.head.path);
  const auto session =
      std::make_shared<job_exchange>(std::move(channel), id_headers(request.who.request_id, form), form);
  const auto traits = traits_of(edge_, request.who, body.text.size());
  const auto done = [session, executor](wire::parsed<std::unique_ptr<wire::text_source>> made) {
    // Shared, because tasks are copied.
    executor->post([session, made = std::make_shared<decltype(made)>(std::move(made))] {
      if (*made)
        session->finish(*std::move(*made));
      else
        session->fail(made->failure());
    });
  };
  const bool accepted = edge_.jobs.submit(
      [this, done, target = request.where.target, who = request.who, model = request.where.id,
       body = std::move(body)]() mutable {
        if (target == endpoint::count_input) return count_input(who, std::move(body), done);
        if (auto gone = begin_reading(edge_, body)) return done(*std::move(gone));
        if (target == endpoint::count_tokens) return done(count_reply(edge_, std::move(body), model));
        done(target == endpoint::tokenize ? tokenize_reply(edge_, std::move(body), model)
                                          : detokenize_reply(edge_, std::move(body), model));
      },
      traits);
  if (accepted) return session;
  ++edge_.metrics.edge_rejections;
  session->fail(overloaded());
  return nullptr;
}

std::shared_ptr<exchange> service::scrape(const admitted_request& request,
                                          std::shared_ptr<reply_channel> channel, executor_ptr executor) {
  const auto session = std::make_shared<job_exchange>(std::move(channel),
                                                      id_headers(request.who.request_id, error_form::openai));
  const bool accepted = scrapes_->ask([session, executor](const scrape_desk::text& text) {
    executor->post([session, text] {
      if (!text) return session->fail(overloaded());
      http_reply reply;
      reply.shared_body = text;
      reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
      session->finish(std::move(reply));
    });
  });
  if (accepted) return session;
  session->fail(overloaded());
  return nullptr;
}

http_reply service::liveness() const {
  if (edge_.runtime.healthy()) return json_reply(R"({"status":"ok"})");
  return error_reply({503, "service_unavailable_error", "unhealthy",
                      "no model serves, or a device or the supervisor has failed", "", 0});
}

http_reply service::readiness() const {
  if (draining_) return error_reply(shutting_down());
  if (const auto status = edge_.runtime.loading()) return progress_reply(*status);
  return liveness();
}

std::shared_ptr<frame_session>
service::open_websocket(const caller& who, std::shared_ptr<frame_channel> channel, executor_ptr executor) {
  if (open_session_) return open_session_(std::move(channel));
  return std::make_shared<websocket_session>(services_, std::move(executor), std::move(channel), who);
}

} // namespace paceline::server

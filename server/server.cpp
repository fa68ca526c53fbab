#include "server/server.hpp"

#include "config/host_names.hpp"
#include "server/edge_pool.hpp"
#include "server/log_throttle.hpp"
#include "server/net/connection.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <future>

namespace paceline::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::chrono::seconds tick_interval{1};
/// Before the next accept if no file descriptors are left.
constexpr std::chrono::milliseconds accept_pause{50};
/// Before the next accept if a descriptor is about to be freed.
constexpr std::chrono::milliseconds eviction_pause{1};
constexpr std::chrono::seconds log_interval{10}; ///< between log lines about connections over the limit
/// Small, so that a slow reader is noticed before megabytes have been sent.
constexpr int send_buffer_bytes = 128 << 10;

std::vector<std::string> names_of(const backend& runtime) {
  std::vector<std::string> names;
  if (const auto status = runtime.loading())
    for (const auto& part : status->parts) names.push_back(part.model);
  else
    for (const auto* model : runtime.models()) names.push_back(model->limits().name);
  return names;
}

error bind_error(const config::server_options& options, const error_code& failure) {
  const auto where = options.host + ":" + std::to_string(options.port);
  if (failure == asio::error::address_in_use)
    return {errc::resource_exhausted, where + ": the port is taken by another process"};
  if (failure == asio::error::access_denied)
    return {errc::invalid_argument, where + ": this port needs more rights"};
  return {errc::invalid_argument, where + ": cannot listen here: " + failure.message()};
}

/// Binds `acceptor` to the configured address.
template <class Acceptor>
std::optional<error> bind_to(Acceptor& acceptor, const config::server_options& options) {
  error_code failure;
  const auto address = asio::ip::make_address(config::address_to_bind(options.host), failure);
  if (failure)
    return error{errc::invalid_argument, "host: \"" + options.host + "\" must be localhost or an IP address"};
  const tcp::endpoint endpoint(address, options.port);
  acceptor.open(endpoint.protocol(), failure);
  if (!failure) acceptor.set_option(asio::socket_base::reuse_address(true), failure);
  if (!failure) acceptor.bind(endpoint, failure);
  if (failure) return bind_error(options, failure);
  return std::nullopt;
}

} // namespace

/// Members are in the order of their dependencies, so they are destroyed in the reverse order.
struct http_server::parts {
  parts(std::unique_ptr<backend> engine_side, config::server_options chosen, config::metrics_options shown,
        edge_limits bounds, edge_settings initial, std::shared_ptr<event_log> lines,
        frame_session_factory open_session)
      : options(std::move(chosen)), metrics_options(shown), limits(bounds), runtime(std::move(engine_side)),
        metrics(names_of(*runtime)), settings(std::move(initial)),
        log(lines ? std::move(lines) : std::make_shared<event_log>()),
        pool(std::make_unique<edge_pool>(options.edge_threads, limits.max_edge_jobs)),
        scrape_pool(std::make_unique<edge_pool>(1, 1)), edge{options,
                                                             metrics_options,
                                                             settings,
                                                             limits,
                                                             *runtime,
                                                             metrics,
                                                             *pool,
                                                             *scrape_pool,
                                                             *log,
                                                             std::string("paceline-") + PACELINE_VERSION,
                                                             [] { return std::chrono::steady_clock::now(); }},
        io(std::make_shared<io_runtime>(limits.io_threads)),
        requests(
            edge, [io = io.get()] { return io->make_executor(io->make_strand()); }, std::move(open_session)),
        bodies(std::make_shared<body_budget>(std::max(options.body_memory_bytes, options.max_body_bytes),
                                             edge.now)),
        outputs(std::make_shared<output_budget>(options.output_memory_bytes, edge.now)),
        connections(options.max_connections), over_limit(log_interval), acceptor(io->make_strand()),
        ticker(io->make_strand()), pause(acceptor.get_executor()) {}

  std::optional<error> listen();
  void accept();
  void on_accepted(tcp_socket socket, const io_strand& strand);
  void on_accept_failure(const error_code& failure);
  void note_over_limit();
  void show_certificate() {
    if (const auto current = settings.get(); current->tls)
      metrics.certificate_not_after = current->tls->certificate().not_after;
  }
  void stop_accepting();
  void tick();
  connection_context context() { return {requests, connections, *io, bodies, outputs}; }

  const config::server_options options;
  const config::metrics_options metrics_options;
  const edge_limits limits;
  std::unique_ptr<backend> runtime;
  edge_metrics metrics;
  settings_cell settings;
  std::shared_ptr<event_log> log;
  std::unique_ptr<edge_pool> pool;
  std::unique_ptr<edge_pool> scrape_pool;
  edge_context edge;
  std::shared_ptr<io_runtime> io;
  service requests;
  std::shared_ptr<body_budget> bodies;
  std::shared_ptr<output_budget> outputs;
  connection_set connections;
  log_throttle over_limit; ///< on the acceptor's strand
  asio::basic_socket_acceptor<tcp, io_strand> acceptor;
  asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>,
                             io_strand>
      ticker;
  asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>,
                             io_strand>
      pause;
  std::uint16_t port = 0;
  std::atomic<bool> stop_begun{false};
  std::atomic<bool> stopping{false}; ///< no more connections are accepted
  bool accept_failed = false;        ///< whether the last accept failed; logged once
};

std::optional<error> http_server::parts::listen() {
  if (auto refused = bind_to(acceptor, options)) return refused;
  error_code failure;
  acceptor.listen(asio::socket_base::max_listen_connections, failure);
  if (failure) return bind_error(options, failure);
  port = acceptor.local_endpoint().port();
  show_certificate();
  asio::post(acceptor.get_executor(), [this] { accept(); });
  asio::post(ticker.get_executor(), [this] { tick(); });
  return std::nullopt;
}

void http_server::parts::accept() {
  if (stopping) return;
  auto strand = io->make_strand();
  acceptor.async_accept(strand, [this, strand](error_code failure, tcp_socket socket) {
    if (stopping || failure == asio::error::operation_aborted) return;
    if (failure) return on_accept_failure(failure);
    accept_failed = false;
    on_accepted(std::move(socket), strand);
    accept();
  });
}

void http_server::parts::on_accepted(tcp_socket socket, const io_strand& strand) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::send_buffer_size(send_buffer_bytes), ignored);
  const auto place = serve_http(context(), std::move(socket), strand, settings.get()->tls);
  if (place.evicted_another) ++metrics.connections_evicted;
  if (place.outcome != connection_set::admission::admitted) ++metrics.connections_refused;
  if (place.evicted_another || place.outcome != connection_set::admission::admitted) note_over_limit();
}

/// Usually no file descriptors are left. Then a silent connection is closed, or the server waits until others
/// end.
void http_server::parts::on_accept_failure(const error_code& failure) {
  if (!std::exchange(accept_failed, true))
    log->write(config::log_level::warning, "cannot accept connections", {{"reason", failure.message()}});
  const bool scarce =
      failure == asio::error::no_descriptors || failure.value() == ENFILE || failure.value() == ENOMEM;
  const bool evicted = scarce && connections.evict_silent();
  if (evicted) ++metrics.connections_evicted;
  pause.expires_after(evicted ? eviction_pause : accept_pause);
  pause.async_wait([this](error_code cancelled) {
    if (!cancelled) accept();
  });
}

void http_server::parts::note_over_limit() {
  if (const auto since_last = over_limit.note(edge.now()))
    log->write(config::log_level::warning, "too many connections: silent ones are closed, others refused",
               {{"limit", options.max_connections},
                {"times", *since_last},
                {"evicted_in_all", metrics.connections_evicted.load()},
                {"refused_in_all", metrics.connections_refused.load()}});
}

void http_server::parts::stop_accepting() {
  stopping = true;
  std::promise<void> closed;
  asio::post(acceptor.get_executor(), [&] {
    error_code ignored;
    acceptor.close(ignored);
    pause.cancel();
    closed.set_value();
  });
  closed.get_future().wait();
}

void http_server::parts::tick() {
  if (stopping) return;
  requests.tick();
  ticker.expires_after(tick_interval);
  ticker.async_wait([this](error_code cancelled) {
    if (!cancelled) tick();
  });
}

http_server::http_server(std::unique_ptr<parts> owned) : parts_(std::move(owned)) {}

http_server::~http_server() { stop(std::chrono::milliseconds(0)); }

std::uint16_t http_server::port() const noexcept { return parts_->port; }

std::string http_server::address() const {
  const auto& host = parts_->options.host;
  const bool v6 = host.find(':') != std::string::npos;
  const std::string scheme = parts_->settings.get()->tls ? "https://" : "http://";
  return scheme + (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port());
}

expected<edge_changes> http_server::reload(const config::server_options& options,
                                           const config::metrics_options& metrics) {
  auto& p = *parts_;
  const auto before = p.settings.get();
  auto settings = edge_settings::from(options, metrics, p.options.host, p.options.allow_unauthenticated);
  if (settings && (settings->tls == nullptr) != (before->tls == nullptr))
    settings = error{errc::invalid_argument, "server.tls: only a restart switches TLS on or off"};
  if (!settings) {
    count_refused_reload();
    return std::move(settings).error();
  }
  edge_changes changes{settings->keys.since(before->keys), {}};
  if (settings->tls && settings->tls->fingerprint() != before->tls->fingerprint())
    changes.certificate = settings->tls->certificate();
  p.settings.set(*std::move(settings));
  p.show_certificate();
  ++p.metrics.reloads_applied;
  p.metrics.last_reload_refused = false;
  return changes;
}

std::optional<certificate_facts> http_server::certificate() const {
  const auto settings = parts_->settings.get();
  return settings->tls ? std::optional(settings->tls->certificate()) : std::nullopt;
}

void http_server::count_refused_reload() noexcept {
  ++parts_->metrics.reloads_refused;
  parts_->metrics.last_reload_refused = true;
}

bool http_server::stop(std::chrono::milliseconds drain_timeout) {
  auto& p = *parts_;
  p.requests.begin_drain();
  if (p.stop_begun.exchange(true)) return true;
  // The listener stays open: requests for health or work get an answer until the last request has ended.
  p.connections.drain_all();
  const bool drained = p.connections.wait_until_idle(drain_timeout);
  if (!drained) {
    p.connections.cut_all_short();
    p.connections.wait_until_idle(p.limits.final_words);
  }
  p.stop_accepting();
  asio::post(p.ticker.get_executor(), [&p] { p.ticker.cancel(); });
  p.requests.clear();
  p.connections.close();
  p.io->finish();
  p.scrape_pool.reset();
  p.pool.reset(); // last, because a connection may post a job to it until the threads have ended
  return drained;
}

expected<std::unique_ptr<http_server>> http_server::start(std::unique_ptr<backend> runtime,
                                                          config::server_options options,
                                                          config::metrics_options metrics, edge_limits limits,
                                                          std::shared_ptr<event_log> log,
                                                          frame_session_factory open_session) {
  auto settings = edge_settings::from(options, metrics, options.host, options.allow_unauthenticated);
  if (!settings) return std::move(settings).error();
  auto owned = std::make_unique<parts>(std::move(runtime), std::move(options), metrics, limits,
                                       *std::move(settings), std::move(log), std::move(open_session));
  auto failure = owned->listen();
  std::unique_ptr<http_server> server(new http_server(std::move(owned)));
  if (failure) return *std::move(failure);
  return server;
}

expected<std::unique_ptr<http_server>> start(engine& runtime, config::server_options options,
                                             config::metrics_options metrics,
                                             std::shared_ptr<event_log> log) {
  return http_server::start(make_engine_backend(runtime), std::move(options), metrics, {}, std::move(log));
}

} // namespace paceline::server

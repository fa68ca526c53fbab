#include "server/edge_settings.hpp"

#include "config/host_names.hpp"

namespace paceline::server {

expected<edge_settings> edge_settings::from(const config::server_options& options,
                                            const config::metrics_options& metrics,
                                            const std::string& bound_host, bool allow_unauthenticated) {
  edge_settings settings;
  if (!options.api_keys_file.empty()) {
    auto keys = key_ring::load(options.api_keys_file);
    if (!keys) return std::move(keys).error();
    settings.keys = *std::move(keys);
  }
  if (!config::is_loopback_address(bound_host) && settings.keys.empty() && !allow_unauthenticated)
    return error{errc::invalid_argument,
                 "server.host: " + bound_host +
                     " is reachable from other machines: set server.api_keys_file, or "
                     "server.allow_unauthenticated: true"};
  if (!options.tls.certificate.empty()) {
    auto tls = tls_context::load(options.tls);
    if (!tls) return std::move(tls).error();
    settings.tls = *std::move(tls);
  }
  settings.allowed_origins = options.allowed_origins;
  settings.request_timeout = options.request_timeout;
  settings.vllm_names = metrics.vllm_names;
  settings.metrics_require_key = metrics.require_key;
  return settings;
}

} // namespace paceline::server

#pragma once

#include "runtime/base/expected.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::server {

using key_digest = std::array<std::uint8_t, 32>;

/// What a key may do besides asking.
struct key_rights {
  /// The lowest `priority` of its requests, which runs first. 0: it may let others go first, nothing more.
  std::int32_t best_priority = 0;
};

/// The API keys, kept as SHA-256 digests only.
class key_ring {
 public:
  key_ring() = default;
  explicit key_ring(const std::vector<std::string>& keys);

  /// One key a line, with " best_priority=N" behind it if it may run before others; blank lines and lines
  /// beginning with # are skipped. A file without a key, a key with other spaces or control characters, and
  /// an unreadable file are errors that never repeat the key.
  static expected<key_ring> load(const std::string& path);

  bool empty() const noexcept { return entries_.empty(); }
  std::size_t size() const noexcept { return entries_.size(); }

  /// Rights of `key`; none if it is not one of ours. Time does not depend on which, nor on how much of one
  /// matches.
  std::optional<key_rights> find(std::string_view key) const noexcept;
  bool holds(std::string_view key) const noexcept { return find(key).has_value(); }

 private:
  struct entry {
    key_digest digest;
    key_rights rights;
  };
  std::vector<entry> entries_;
};

/// SHA-256.
key_digest digest_of(std::string_view text) noexcept;
std::string to_hex(const key_digest& digest);

/// The key of an Authorization header ("Bearer …"); empty if there is none.
std::string_view bearer_key(std::string_view authorization) noexcept;

/// True for names that only ever mean this machine: localhost, 127.0.0.0/8, ::1, with or without a port.
/// Names of hosts compare without regard to case, here and below.
bool is_loopback_host(std::string_view host) noexcept;

/// An IPv4 address of four octets, or an IPv6 address in brackets; with or without a port. No name server can
/// make it mean another machine.
bool is_ip_literal(std::string_view host) noexcept;

/// What decides on a Host.
struct host_rules {
  std::string_view bound_host;             ///< the configured address
  bool has_keys = false;                   ///< API keys are configured
  const std::vector<std::string>& allowed; ///< with or without their port
};

/// Guards against DNS rebinding, where a page's name comes to mean this server. Listed hosts and loopback
/// names pass: no name server can make a page's name one of the latter. On a loopback bind nothing else does;
/// on an open bind, if none are listed: with keys any Host, which a page cannot have the key for; without
/// keys IP literals, the bound address, and a request without a Host, which no browser sends.
bool host_allowed(std::string_view host, const host_rules& rules);

/// Guards against pages of other sites: an absent Origin passes (not a browser), one of ours (`host` itself)
/// and one of this machine's pass, others must be listed.
bool origin_allowed(std::string_view origin, std::string_view host, const std::vector<std::string>& allowed);

} // namespace paceline::server

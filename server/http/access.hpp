#pragma once

#include "runtime/base/expected.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::server {

using key_digest = std::array<std::uint8_t, 32>;

/// The API keys, kept as SHA-256 digests only.
class key_ring {
 public:
  key_ring() = default;
  explicit key_ring(const std::vector<std::string>& keys);

  /// One key a line; blank lines and lines beginning with # are skipped. A file without a key, a key with
  /// spaces or control characters, and an unreadable file are errors that never repeat the key.
  static expected<key_ring> load(const std::string& path);

  bool empty() const noexcept { return digests_.empty(); }

  /// True if `key` is one of ours. Time does not depend on which, nor on how much of one matches.
  bool holds(std::string_view key) const noexcept;

 private:
  std::vector<key_digest> digests_;
};

/// SHA-256.
key_digest digest_of(std::string_view text) noexcept;
std::string to_hex(const key_digest& digest);

/// The key of an Authorization header ("Bearer …"); empty if there is none.
std::string_view bearer_key(std::string_view authorization) noexcept;

/// True for names that only ever mean this machine: localhost, 127.0.0.0/8, ::1, with or without a port.
bool is_loopback_host(std::string_view host) noexcept;
/// The same for an address to bind.
bool is_loopback_address(std::string_view address) noexcept;

/// Guards against DNS rebinding: on a loopback bind, the Host must be a loopback name or listed. On an open
/// bind any Host passes unless some are listed. `allowed` may name a host with or without its port.
bool host_allowed(std::string_view host, bool loopback_bind, const std::vector<std::string>& allowed);

/// Guards against pages of other sites: an absent Origin passes (not a browser), one of ours (`host` itself)
/// and one of this machine's pass, others must be listed.
bool origin_allowed(std::string_view origin, std::string_view host, const std::vector<std::string>& allowed);

} // namespace paceline::server

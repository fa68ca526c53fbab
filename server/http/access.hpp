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

/// The rights of an API key besides sending requests.
struct key_rights {
  /// Lowest `priority` that its requests may ask for (lower runs first). With 0, requests can ask to run
  /// after others, but not before them.
  std::int32_t best_priority = 0;
};

/// The differences between two files of keys.
struct key_changes {
  std::size_t added = 0;
  std::size_t removed = 0;
  std::size_t changed = 0; ///< keys whose rights differ

  bool any() const noexcept { return added + removed + changed > 0; }
  friend bool operator==(const key_changes&, const key_changes&) = default;
};

/// True if `text` may be a key: 1 to 512 printable ASCII characters without spaces.
bool may_be_key(std::string_view text) noexcept;

/// The API keys, kept as SHA-256 digests only.
class key_ring {
 public:
  key_ring() = default;
  explicit key_ring(const std::vector<std::string>& keys);

  /// Reads one key a line, optionally followed by " best_priority=N". Empty lines and lines that begin with #
  /// are skipped. Errors: an unreadable file; a file without a key; a line without a valid key
  /// (`may_be_key`), or with anything but a priority after the key. Messages never contain a key.
  static expected<key_ring> load(const std::string& path);

  bool empty() const noexcept { return entries_.empty(); }
  std::size_t size() const noexcept { return entries_.size(); }

  /// The differences from `before` to this object. A key that is listed twice counts once, with the rights of
  /// its last line.
  key_changes since(const key_ring& before) const;

  /// Rights of `key`; nullopt if it is unknown. The duration of the call reveals neither which key matched
  /// nor how many of its characters did.
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

/// The key in an Authorization header ("Bearer …"); empty if there is none.
std::string_view bearer_key(std::string_view authorization) noexcept;

/// The sub-protocols that a WebSocket client offers.
struct offered_protocols {
  std::string_view key; ///< the API key from a protocol "openai-insecure-api-key.KEY"; empty if there is none
  /// The protocol that the server shall select: the first valid one that carries neither a key nor the name
  /// of an organization or project; empty if there is none.
  std::string_view answer;
};

/// Reads a Sec-WebSocket-Protocol header. Pages cannot send an Authorization header with a WebSocket, so
/// OpenAI's clients offer the key as one sub-protocol, beside another one such as "realtime".
offered_protocols read_protocols(std::string_view header) noexcept;

/// True for names that always mean this machine: localhost, 127.0.0.0/8 and [::1], with or without a port.
/// This function and those below ignore the case of host names.
bool is_loopback_host(std::string_view host) noexcept;

/// True for an IPv4 address of four octets or an IPv6 address in brackets, with or without a port. A client
/// needs no DNS to reach such a host.
bool is_ip_literal(std::string_view host) noexcept;

/// Rules for the Host header.
struct host_rules {
  std::string_view bound_host;             ///< the configured address
  bool has_keys = false;                   ///< whether API keys are configured
  const std::vector<std::string>& allowed; ///< each with or without a port
};

/// Guards against DNS rebinding: an attacker's web page has a host name that resolves to this server. The
/// first rule that applies decides:
/// - Hosts in the list `allowed` and loopback names are allowed. (A page on the Internet cannot have a
///   loopback name.)
/// - If the server is bound to loopback, or the list is not empty, no other host is allowed.
/// - If there are keys, any host is allowed, because the page does not know a key.
/// - Otherwise IP literals and the bound address are allowed.
bool host_allowed(std::string_view host, const host_rules& rules);

/// The names of the headers that pages may send: the headers that the server reads, and those that OpenAI's
/// and Anthropic's browser clients add. `requested` is the list of a CORS preflight; its names that begin
/// with "x-stainless-" are permitted, too. In lower case, without repetition.
std::vector<std::string> permitted_headers(std::string_view requested);

/// Guards against pages of other sites. Allows an absent Origin (the client is not a browser), the server's
/// own origin (`host`), loopback origins, and the origins in `allowed`, where "*" stands for every origin.
/// With `is_secure` (TLS) the server's own origin must be https, because an attacker in the network can forge
/// pages over http. Without TLS, both http and https are allowed, because a proxy in front of the server may
/// speak https.
bool origin_allowed(std::string_view origin, std::string_view host, const std::vector<std::string>& allowed,
                    bool is_secure = false);

} // namespace paceline::server

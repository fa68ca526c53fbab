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
  /// Lowest `priority` that its requests may ask for (lower runs first). 0: they may only give way to others.
  std::int32_t best_priority = 0;
};

/// What a new file of keys changed.
struct key_changes {
  std::size_t added = 0;
  std::size_t removed = 0;
  std::size_t changed = 0; ///< with other rights

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

  /// Reads one key a line, optionally followed by " best_priority=N". Blank lines and lines that begin with #
  /// are skipped. Errors: a file without a key, a key with other spaces or control characters, an unreadable
  /// file. Messages never contain the key.
  static expected<key_ring> load(const std::string& path);

  bool empty() const noexcept { return entries_.empty(); }
  std::size_t size() const noexcept { return entries_.size(); }

  key_changes since(const key_ring& before) const;

  /// Rights of `key`; nullopt if it is unknown. The time taken reveals neither which key matched nor how much
  /// of one.
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
  std::string_view key; ///< the API key in one of them, "openai-insecure-api-key.KEY"; empty if there is none
  std::string_view answer; ///< the one to answer with, which holds no secret; empty if there is none
};

/// Reads a Sec-WebSocket-Protocol header. Pages cannot send an Authorization header with a WebSocket, so
/// OpenAI's clients offer the key as a sub-protocol beside another one, such as "realtime".
offered_protocols read_protocols(std::string_view header) noexcept;

/// True for names that always mean this machine: localhost, 127.0.0.0/8, ::1, with or without a port. Host
/// names are compared without regard to case, here and below.
bool is_loopback_host(std::string_view host) noexcept;

/// True for an IPv4 address of four octets or an IPv6 address in brackets, with or without a port. DNS cannot
/// redirect these.
bool is_ip_literal(std::string_view host) noexcept;

/// Rules for the Host header.
struct host_rules {
  std::string_view bound_host;             ///< the configured address
  bool has_keys = false;                   ///< whether API keys are configured
  const std::vector<std::string>& allowed; ///< each with or without a port
};

/// Guards against DNS rebinding, where the name of a web page resolves to this server. Listed hosts and
/// loopback names pass, because DNS cannot make a page's name one of the latter. A server bound to loopback
/// accepts nothing else. One bound to an open address also accepts, if no hosts are listed: with keys any
/// Host, because the page does not have the key; without keys IP literals and the bound address.
bool host_allowed(std::string_view host, const host_rules& rules);

/// The header names of a preflight's list that pages may send: those that the server reads, and those that
/// OpenAI's and Anthropic's browser clients add. In lower case, without repetition.
std::vector<std::string> permitted_headers(std::string_view requested);

/// Guards against pages of other sites. An absent Origin passes (not a browser), as do the server's own
/// (`host`) and those of this machine; others must be listed. With `is_secure` the server's own pages come by
/// https only, because anybody on the way can make one of http; without it a proxy in front may speak https.
bool origin_allowed(std::string_view origin, std::string_view host, const std::vector<std::string>& allowed,
                    bool is_secure = false);

} // namespace paceline::server

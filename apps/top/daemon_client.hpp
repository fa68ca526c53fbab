#pragma once

#include "runtime/base/expected.hpp"

#include <memory>
#include <string>

namespace paceline::apps {

/// Where a daemon is, and how to be let in.
struct daemon_address {
  std::string url = "http://127.0.0.1:8080"; ///< http or https; without a scheme http
  std::string api_key;                       ///< empty: none
  std::string ca_file; ///< certificates of authorities in PEM; empty: those of the system
};

/// A client of a daemon. Waits at most five seconds for the address of a name, as long for a connection, and
/// as long for the reply. For one thread.
class daemon_client {
 public:
  virtual ~daemon_client() = default;
  /// The body of a reply with status 200. Errors: the daemon cannot be reached (errc::not_found), or refuses,
  /// with its message.
  virtual expected<std::string> get(const std::string& path) = 0;

  /// Errors: the URL is none, the certificates cannot be read.
  static expected<std::unique_ptr<daemon_client>> make(const daemon_address& address);
};

} // namespace paceline::apps

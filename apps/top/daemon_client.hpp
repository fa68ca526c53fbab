#pragma once

#include "runtime/base/expected.hpp"

#include <functional>
#include <memory>
#include <string>

namespace paceline::apps {

/// URL and credentials of a daemon.
struct daemon_address {
  /// http or https; without a scheme http. A path is put before the path of each request.
  std::string url = "http://127.0.0.1:8080";
  std::string api_key; ///< empty: none
  std::string ca_file; ///< certificates of authorities in PEM; empty: those of the system
};

/// An HTTP client of a daemon. Waits at most five seconds each for name resolution, the connection and the
/// reply. Not thread-safe.
class daemon_client {
 public:
  virtual ~daemon_client() = default;
  /// The body of a reply with status 200. Errors: errc::not_found if the daemon cannot be reached, or
  /// errc::invalid_argument with the daemon's message if it refuses the request. `wants_end` is asked 20
  /// times a second; once it returns true, the request ends with an error.
  virtual expected<std::string> get(const std::string& path, const std::function<bool()>& wants_end = {}) = 0;

  /// Errors: the URL is invalid, or the certificates cannot be read.
  static expected<std::unique_ptr<daemon_client>> make(const daemon_address& address);
};

} // namespace paceline::apps

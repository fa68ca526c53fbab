#pragma once

#include "config/server_options.hpp"
#include "runtime/base/expected.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace boost::asio::ssl {
class context;
}

namespace paceline::server {

/// Properties of the server's certificate that are reported.
struct certificate_facts {
  std::string subject;    ///< "CN = inference.example.com"
  std::string valid_till; ///< UTC, "2027-01-31T12:00:00Z"
  std::int64_t not_after; ///< the same in seconds since 1970
};

/// Certificate, key and rules of TLS connections: TLS 1.2 and 1.3, authenticated ciphers with forward
/// secrecy, no renegotiation, no compression. Immutable. A reload makes a new context; connections that were
/// accepted before the reload keep the parts of the old context that they need.
class tls_context {
 public:
  /// Reads the files of `options`, which must name a certificate. Errors name the file and the reason: the
  /// file is unreadable or not PEM; the key is weak, belongs to another certificate or has a passphrase;
  /// `client_ca` has no authority.
  static expected<std::shared_ptr<tls_context>> load(const config::tls_options& options);

  boost::asio::ssl::context& native() noexcept { return *native_; }
  const certificate_facts& certificate() const noexcept { return certificate_; }
  /// SHA-256 of the certificate as 32 bytes. After a reload it shows whether the certificate has changed.
  const std::string& fingerprint() const noexcept { return fingerprint_; }

 private:
  tls_context() = default;

  std::shared_ptr<boost::asio::ssl::context> native_;
  certificate_facts certificate_;
  std::string fingerprint_;
};

} // namespace paceline::server

#include "server/net/tls_context.hpp"

#include <boost/asio/ssl/context.hpp>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <optional>
#include <string_view>

namespace paceline::server {

namespace {

namespace ssl = boost::asio::ssl;

/// Ciphers of TLS 1.2. All ciphers of TLS 1.3 are secure, so they need no list.
constexpr const char* ciphers = "ECDHE+AESGCM:ECDHE+CHACHA20";
/// A TLS session can be resumed only with the server that began it.
constexpr std::string_view session_context = "paceline";
constexpr std::string_view protocols = "\x08http/1.1\x08http/1.0"; ///< as ALPN writes them

error file_error(const std::string& path, const std::string& reason) {
  return {errc::invalid_file, path + ": " + reason};
}

/// Checks that a file can be read at all, because OpenSSL's message for this is hard to understand.
std::optional<error> unreadable(const std::string& path) {
  errno = 0;
  const std::ifstream file(path);
  if (file && file.rdbuf()->sgetc() != std::ifstream::traits_type::eof()) return std::nullopt;
  return error{errc::not_found,
               path + ": cannot read: " + (errno != 0 ? std::strerror(errno) : "it is empty")};
}

/// The oldest of OpenSSL's errors, which happened first. Clears all of them.
std::string openssl_reason() {
  const auto code = ERR_get_error();
  ERR_clear_error();
  const auto* text = ERR_reason_error_string(code);
  return text != nullptr ? text : "not understood";
}

/// Without this callback OpenSSL would ask at the terminal.
int no_passphrase(char*, int, int, void*) { return 0; }

int choose_protocol(SSL*, const unsigned char** out, unsigned char* size, const unsigned char* offered,
                    unsigned num_offered, void*) {
  const auto* ours = reinterpret_cast<const unsigned char*>(protocols.data());
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, size, ours, protocols.size(), offered, num_offered) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

void set_rules(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(context, ciphers);
  SSL_CTX_set_options(context,
                      SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Frees the buffers of records while a connection is idle.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_id_context(context, reinterpret_cast<const unsigned char*>(session_context.data()),
                                 session_context.size());
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
}

std::optional<error> read_certificate(SSL_CTX* context, const config::tls_options& options) {
  if (auto failure = unreadable(options.certificate)) return failure;
  if (auto failure = unreadable(options.key)) return failure;
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context, options.certificate.c_str()) != 1)
    return file_error(options.certificate, "no usable certificate in PEM: " + openssl_reason());
  if (SSL_CTX_use_PrivateKey_file(context, options.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1) {
    const auto code = ERR_peek_error();
    const bool is_other =
        (ERR_GET_LIB(code) == ERR_LIB_X509 && ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH) ||
        (ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_NO_CERTIFICATE_ASSIGNED);
    const auto reason = openssl_reason();
    return file_error(options.key, is_other ? "not the key of the certificate in " + options.certificate
                                            : "no usable private key in PEM without a passphrase: " + reason);
  }
  return std::nullopt;
}

std::optional<error> require_client_certificates(SSL_CTX* context, const std::string& path) {
  if (auto failure = unreadable(path)) return failure;
  ERR_clear_error();
  auto* names = SSL_load_client_CA_file(path.c_str());
  if (names == nullptr || SSL_CTX_load_verify_file(context, path.c_str()) != 1) {
    sk_X509_NAME_pop_free(names, X509_NAME_free);
    return file_error(path, "no usable certificate authority in PEM: " + openssl_reason());
  }
  SSL_CTX_set_client_CA_list(context, names); // owns it
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return std::nullopt;
}

certificate_facts facts_of(X509* certificate) {
  certificate_facts facts;
  std::array<char, 256> text{};
  auto* memory = BIO_new(BIO_s_mem());
  X509_NAME_print_ex(memory, X509_get_subject_name(certificate), 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  const int size = BIO_read(memory, text.data(), text.size());
  facts.subject.assign(text.data(), static_cast<std::size_t>(std::max(size, 0)));
  BIO_free(memory);
  std::tm end{};
  ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end);
  facts.not_after = timegm(&end);
  facts.valid_till.assign(text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &end));
  return facts;
}

std::string fingerprint_of(X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  X509_digest(certificate, EVP_sha256(), digest.data(), &size);
  return {reinterpret_cast<const char*>(digest.data()), size};
}

} // namespace

expected<std::shared_ptr<tls_context>> tls_context::load(const config::tls_options& options) {
  std::shared_ptr<tls_context> made(new tls_context);
  made->native_ = std::make_shared<ssl::context>(ssl::context::tls_server);
  auto* native = made->native_->native_handle();
  set_rules(native);
  if (auto failure = read_certificate(native, options)) return *std::move(failure);
  if (!options.client_ca.empty())
    if (auto failure = require_client_certificates(native, options.client_ca)) return *std::move(failure);
  auto* certificate = SSL_CTX_get0_certificate(native);
  made->certificate_ = facts_of(certificate);
  made->fingerprint_ = fingerprint_of(certificate);
  return made;
}

} // namespace paceline::server

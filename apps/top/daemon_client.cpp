#include "apps/top/daemon_client.hpp"

#include "apps/terminal_text.hpp"
#include "apps/top/result_within.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <boost/json/parse.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/url.hpp>

#include <charconv>
#include <chrono>
#include <string_view>
#include <type_traits>
#include <utility>

namespace paceline::apps {

namespace asio = boost::asio;
namespace json = boost::json;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::chrono::seconds patience{5};
constexpr std::chrono::milliseconds wait_step{50}; ///< between two questions whether to end
constexpr std::uint64_t most_bytes = 16U << 20U;   ///< maximum size of a reply

/// The `message` of OpenAI's error object, or only the status; for a missing or wrong key, how to give one.
error refusal(unsigned status, const std::string& body) {
  error_code failed;
  const auto parsed = json::parse(body, failed);
  const auto* why = failed || !parsed.is_object() ? nullptr : parsed.as_object().if_contains("error");
  const auto* message =
      why != nullptr && why->is_object() ? why->as_object().if_contains("message") : nullptr;
  auto text = "the daemon answered " + std::to_string(status);
  if (message != nullptr && message->is_string())
    text += ": " + for_terminal(std::string(message->as_string()), "");
  if (status == 401) text += "; give a key with --api-key or PACELINE_API_KEY";
  return {errc::invalid_argument, text};
}

/// The parts of a URL.
struct place {
  std::string host;
  std::string port;
  bool is_secure = false;
  std::string prefix; ///< of every path; empty, or it begins with a slash and does not end with one
};

expected<place> place_of(const std::string& given) {
  const auto url = given.find("://") == std::string::npos ? "http://" + given : given;
  const auto parsed = boost::urls::parse_uri(url);
  if (!parsed || parsed->host_address().empty() ||
      (parsed->scheme() != "http" && parsed->scheme() != "https"))
    return error{errc::invalid_argument, "\"" + given + "\" is no URL such as http://127.0.0.1:8080"};
  const bool is_secure = parsed->scheme() == "https";
  const std::string port = parsed->has_port() ? std::string(parsed->port()) : is_secure ? "443" : "80";
  const auto path = parsed->encoded_path();
  std::string prefix(path.begin(), path.end());
  while (prefix.ends_with('/')) prefix.pop_back();
  return place{parsed->host_address(), port, is_secure, prefix};
}

/// The addresses of a host name.
struct endpoints {
  error_code failed;
  tcp::resolver::results_type ends;
};

/// Uses the system's look-up, which cannot be cancelled and may take minutes.
endpoints look_up(const place& where) {
  asio::io_context context;
  endpoints out;
  out.ends = tcp::resolver(context).resolve(where.host, where.port, out.failed);
  return out;
}

struct reply {
  unsigned status = 0;
  std::string body;
};

/// Parses a reply of HTTP/1.0 without transfer coding: a head, and then the body up to the end.
expected<reply> reply_in(const std::string& bytes) {
  constexpr std::string_view version = "HTTP/1.";
  constexpr std::size_t status_at = version.size() + 2; // the position after "HTTP/1.1 "
  constexpr std::string_view blank_line = "\r\n\r\n";
  reply out;
  const auto end = bytes.find(blank_line);
  if (!bytes.starts_with(version) || end == std::string::npos || end < status_at + 3 ||
      std::from_chars(bytes.data() + status_at, bytes.data() + status_at + 3, out.status).ec != std::errc{})
    return error{errc::invalid_argument, "this is no HTTP server"};
  out.body = bytes.substr(end + blank_line.size());
  return out;
}

using tls_stream = asio::ssl::stream<tcp::socket>;

/// Sends requests with HTTP/1.0. Each request has its own connection, which the reply ends. `Stream` is
/// tcp::socket or tls_stream.
template <class Stream>
class client final : public daemon_client {
 public:
  static constexpr bool has_tls = std::is_same_v<Stream, tls_stream>;

  client(place where, std::string key, std::unique_ptr<asio::ssl::context> tls)
      : where_(std::move(where)), key_(std::move(key)), tls_(std::move(tls)) {}

  expected<std::string> get(const std::string& path, const std::function<bool()>& wants_end) override {
    wants_end_ = wants_end;
    std::string bytes;
    if (const auto failed = ask(path, bytes))
      return error{errc::not_found, "cannot reach " + authority() + ": " + failed.message()};
    auto read = reply_in(bytes);
    if (!read) return error{errc::not_found, authority() + ": " + read.error().message()};
    if (read->status != 200) return refusal(read->status, read->body);
    return std::move(read->body);
  }

 private:
  std::string authority() const {
    const bool v6 = where_.host.find(':') != std::string::npos;
    return (v6 ? "[" + where_.host + "]" : where_.host) + ":" + where_.port;
  }

  Stream make_stream() {
    if constexpr (has_tls)
      return Stream(context_, *tls_);
    else
      return Stream(context_);
  }

  bool wants_end() const { return wants_end_ && wants_end_(); }

  /// Runs an asynchronous operation to its end, or until the time limit or the user's end.
  template <class Start>
  error_code run(Stream& stream, const Start& start) {
    error_code result;
    bool has_ended = false;
    start([&](const error_code& failure, auto&&...) {
      result = failure;
      has_ended = true;
    });
    context_.restart();
    const auto end = std::chrono::steady_clock::now() + patience;
    for (;;) {
      context_.run_for(wait_step);
      if (has_ended) return result;
      const bool is_late = std::chrono::steady_clock::now() >= end;
      if (!is_late && !wants_end()) continue;
      error_code ignored;
      stream.lowest_layer().close(ignored);
      context_.run(); // the operation ends with an error
      return is_late ? asio::error::timed_out : asio::error::operation_aborted;
    }
  }

  error_code open(Stream& stream) {
    const auto found = result_within(
        patience, [where = where_] { return look_up(where); }, [this] { return wants_end(); });
    if (!found) return asio::error::timed_out;
    auto failed = found->failed;
    if (!failed)
      failed = run(stream, [&](auto done) { asio::async_connect(stream.lowest_layer(), found->ends, done); });
    if constexpr (has_tls) {
      if (failed) return failed;
      SSL_set_tlsext_host_name(stream.native_handle(), where_.host.c_str());
      stream.set_verify_callback(asio::ssl::host_name_verification(where_.host));
      failed = run(stream, [&](auto done) { stream.async_handshake(asio::ssl::stream_base::client, done); });
    }
    return failed;
  }

  /// The bytes of the reply.
  error_code ask(const std::string& path, std::string& bytes) {
    auto stream = make_stream();
    if (const auto failed = open(stream)) return failed;
    const auto request = "GET " + where_.prefix + path + " HTTP/1.0\r\nHost: " + authority() + "\r\n" +
                         (key_.empty() ? "" : "Authorization: Bearer " + key_ + "\r\n") + "\r\n";
    if (const auto failed =
            run(stream, [&](auto done) { asio::async_write(stream, asio::buffer(request), done); }))
      return failed;
    const auto ended = run(stream, [&](auto done) {
      asio::async_read(stream, asio::dynamic_buffer(bytes, most_bytes), asio::transfer_all(), done);
    });
    if (ended == asio::error::eof || ended == asio::ssl::error::stream_truncated) return {};
    return ended ? ended : make_error_code(boost::system::errc::file_too_large);
  }

  const place where_;
  const std::string key_;
  const std::unique_ptr<asio::ssl::context> tls_;
  std::function<bool()> wants_end_; ///< of the request under way
  asio::io_context context_;
};

} // namespace

expected<std::unique_ptr<daemon_client>> daemon_client::make(const daemon_address& address) {
  auto where = place_of(address.url);
  if (!where) return std::move(where).error();
  if (!where->is_secure)
    return std::unique_ptr<daemon_client>(
        std::make_unique<client<tcp::socket>>(*std::move(where), address.api_key, nullptr));
  auto tls = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_client);
  error_code failed;
  tls->set_verify_mode(asio::ssl::verify_peer);
  if (address.ca_file.empty())
    tls->set_default_verify_paths(failed);
  else
    tls->load_verify_file(address.ca_file, failed);
  if (failed) return error{errc::invalid_argument, "--ca-file: " + address.ca_file + ": " + failed.message()};
  return std::unique_ptr<daemon_client>(
      std::make_unique<client<tls_stream>>(*std::move(where), address.api_key, std::move(tls)));
}

} // namespace paceline::apps

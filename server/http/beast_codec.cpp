#include "server/http/beast_codec.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/chunk_encode.hpp>
#include <boost/beast/http/fields.hpp>

#include <limits>

namespace paceline::server {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

std::string_view view_of(beast::string_view text) noexcept { return {text.data(), text.size()}; }

/// Collects the parts of one head. The body is skipped: Beast must not see it.
class head_parser final : public http::basic_parser<true> {
 public:
  explicit head_parser(split_head& parts) : parts_(parts) {
    header_limit(std::numeric_limits<std::uint32_t>::max()); // the caller has its own limit
    skip(true);
  }

 private:
  void on_request_impl(http::verb, beast::string_view method, beast::string_view target, int version,
                       error_code&) override {
    parts_.method = view_of(method);
    parts_.target = view_of(target);
    parts_.http_1_0 = version == 10;
  }
  void on_field_impl(http::field, beast::string_view name, beast::string_view value, error_code&) override {
    parts_.fields.push_back({view_of(name), view_of(value)});
  }
  void on_header_impl(error_code&) override {}
  void on_finish_impl(error_code&) override {}
  void on_response_impl(int, beast::string_view, int, error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(beast::string_view, error_code&) override { return 0; }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view, error_code&) override { return 0; }

  split_head& parts_;
};

const char* reason_of(const error_code& failure) {
  if (failure == http::error::bad_method) return "the method is not a token";
  if (failure == http::error::bad_target)
    return "the request target is missing or has a character that must be escaped";
  if (failure == http::error::bad_version) return "the request line must end with the HTTP version";
  if (failure == http::error::bad_field) return "a header line must begin with a token and a colon";
  if (failure == http::error::bad_value)
    return "a header value has a control character, or Connection is not a list of tokens";
  if (failure == http::error::bad_transfer_encoding || failure == http::error::bad_content_length ||
      failure == http::error::multiple_content_length)
    return "a body has either one Content-Length, a decimal number, or one Transfer-Encoding";
  return "the request head is malformed";
}

} // namespace

expected<split_head> split_request_head(std::string_view bytes) {
  split_head parts;
  head_parser parser(parts);
  error_code failure;
  const auto count = parser.put(asio::buffer(bytes.data(), bytes.size()), failure);
  if (failure) return error{errc::invalid_argument, reason_of(failure)};
  if (count != bytes.size() || !parser.is_done())
    return error{errc::invalid_argument, "the request head is malformed"};
  if (const auto length = parser.content_length()) parts.content_length = *length;
  parts.keep_alive = parser.keep_alive();
  parts.asks_for_upgrade = parser.upgrade();
  return parts;
}

std::string_view reason_phrase(int status) noexcept {
  const auto phrase = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)));
  return {phrase.data(), phrase.size()};
}

std::string write_head(int status, const header_list& fields) {
  http::fields list;
  for (const auto& [name, value] : fields) list.insert(name, value);
  return beast::buffers_to_string(http::fields::writer(list, 11, static_cast<unsigned>(status)).get());
}

std::string write_chunk(std::string_view bytes) {
  return beast::buffers_to_string(http::make_chunk(asio::buffer(bytes.data(), bytes.size())));
}

} // namespace paceline::server

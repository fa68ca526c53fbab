#pragma once

#include "runtime/base/expected.hpp"
#include "server/http/reply_channel.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Reading and writing of HTTP with Boost.Beast. Beast dominates build time, so no header includes it, and
/// only one source file of this folder does. Beast handles heads and chunks only, never the body of a request
/// (docs/decisions/0590).
namespace paceline::server {

/// The parts of a request's head, as views into its bytes.
struct split_head {
  struct field {
    std::string_view name;
    std::string_view value; ///< without the blanks around it
  };
  std::string_view method;
  std::string_view target;
  bool http_1_0 = false;
  std::vector<field> fields; ///< in their order
  std::optional<std::uint64_t> content_length;
  bool keep_alive = true;
  bool asks_for_upgrade = false; ///< Connection lists "upgrade"
};

/// Splits a whole head, including the empty line. The result may still have to be refused: parse_request_head
/// checks more. The error says how the head is malformed.
expected<split_head> split_request_head(std::string_view bytes);

/// Standard phrase of a status.
std::string_view reason_phrase(int status) noexcept;

/// A status line, `fields` in their order and the empty line. Names and values must have been checked.
std::string write_head(int status, const header_list& fields);

/// `bytes`, which must not be empty, as one chunk.
std::string write_chunk(std::string_view bytes);

} // namespace paceline::server

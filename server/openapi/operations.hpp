#pragma once

#include "protocol/wire/fields/field_spec.hpp"
#include "server/http/router.hpp"

#include <span>
#include <string_view>

namespace paceline::server {

/// The entry of the OpenAPI document for an endpoint, without its path.
struct operation {
  std::string_view id;
  std::string_view summary;
  std::string_view description = {};
  wire::request_kinds body = 0;                ///< kind of request; 0: takes no body
  std::string_view example = {};               ///< example of the body, as JSON
  std::string_view media = "application/json"; ///< media type of the reply; empty: always an event stream
  std::string_view reply = {};                 ///< name of the schema of the reply; empty: text
  std::string_view events = {};       ///< name of the schema of each event, where the reply may be a stream
  std::string_view parameters = {};   ///< parameters besides those of the path, as JSON objects
  std::string_view error = "error";   ///< name of the schema of refusals
  std::span<const int> failures = {}; ///< statuses of refusals
};

const operation& operation_of(endpoint target) noexcept;

} // namespace paceline::server

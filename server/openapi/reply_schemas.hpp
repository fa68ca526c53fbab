#pragma once

#include <string_view>

namespace paceline::server {

/// JSON Schemas of the server's replies: one JSON object that maps names to schemas, in which @name stands
/// for a reference to another schema. The code that writes these replies is in protocol/wire and
/// server/service_models.cpp. tests/server/openapi_test.py compares replies with the schemas, and fails on
/// members that are not declared.
extern const std::string_view reply_schemas;
/// The same for replies of /v1/responses.
extern const std::string_view response_schemas;
/// The same for replies of /v1/messages.
extern const std::string_view message_schemas;

} // namespace paceline::server

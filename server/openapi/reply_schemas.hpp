#pragma once

#include <string_view>

namespace paceline::server {

/// JSON Schemas of everything the server replies, as one JSON object by name, in which @name stands for a
/// reference to another schema. Their writers are in protocol/wire and server/service_models.cpp;
/// tests/server/openapi_test.py compares replies with them, and fails on members that are not declared.
extern const std::string_view reply_schemas;
/// The same of /v1/responses.
extern const std::string_view response_schemas;
/// The same of /v1/messages.
extern const std::string_view message_schemas;

} // namespace paceline::server

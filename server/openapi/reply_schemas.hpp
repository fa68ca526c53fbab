#pragma once

#include <string_view>

namespace paceline::server {

/// JSON Schemas of the server's replies: the text of a JSON object that maps names to schemas. In it, @name
/// stands for {"$ref": "#/components/schemas/name"}, which document.cpp inserts. The replies are written in
/// protocol/wire and server/service*.cpp. tests/server/openapi_test.py compares replies with the schemas, and
/// fails on members that are not declared.
extern const std::string_view reply_schemas;
/// The same for replies of /v1/responses.
extern const std::string_view response_schemas;
/// The same for replies of /v1/messages.
extern const std::string_view message_schemas;

} // namespace paceline::server

#pragma once

#include <memory>
#include <string>

namespace paceline::server {

/// The OpenAPI 3.1 document of the HTTP interface, as JSON. Its paths come from the router, and its request
/// schemas from the field table. It is the same for every configuration. It is made once; any thread may call
/// this function.
std::shared_ptr<const std::string> openapi_document();

} // namespace paceline::server

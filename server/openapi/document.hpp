#pragma once

#include <memory>
#include <string>

namespace paceline::server {

/// The OpenAPI 3.1 document of the HTTP interface, as JSON. Its paths are those of the router, its requests
/// those of the field table. It is the same for every configuration. Made once; any thread may call it.
std::shared_ptr<const std::string> openapi_document();

} // namespace paceline::server

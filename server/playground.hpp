#pragma once

#include <string_view>

namespace paceline::server {

/// One page that chats with the first model over /v1/chat/completions; no files, no outside addresses.
extern const std::string_view playground_page;

} // namespace paceline::server

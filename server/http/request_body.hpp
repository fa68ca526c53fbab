#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::server {

/// A whole request body or WebSocket message. `owner` holds its memory and its place in the budget; whoever
/// parses it keeps the owner until the text is of no more use.
struct request_body {
  request_body() = default;
  request_body(std::string bytes) { // NOLINT: a text is a body
    auto kept = std::make_shared<std::string>(std::move(bytes));
    text = *kept;
    owner = std::move(kept);
  }
  request_body(std::string_view bytes, std::shared_ptr<void> kept) : text(bytes), owner(std::move(kept)) {}

  std::string_view text;
  std::shared_ptr<void> owner;
};

} // namespace paceline::server

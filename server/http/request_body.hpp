#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::server {

/// What counts the memory of a body, until its last owner lets go.
class body_place {
 public:
  virtual ~body_place() = default;
  /// Its text is about to be read: it gives way no more. False if it had to already.
  [[nodiscard]] virtual bool begin_use() = 0;
};

/// A whole request body or WebSocket message. `owner` holds its memory: whoever parses it keeps the owner
/// until the text is of no more use, and its place until what was made of the text is not either.
struct request_body {
  request_body() = default;
  request_body(std::string bytes) { // NOLINT: a text is a body
    auto kept = std::make_shared<std::string>(std::move(bytes));
    text = *kept;
    owner = std::move(kept);
  }
  request_body(std::string_view bytes, std::shared_ptr<void> kept, std::shared_ptr<body_place> counted)
      : text(bytes), owner(std::move(kept)), place(std::move(counted)) {}

  /// To be asked before the text is read: false if its memory was wanted back while it waited.
  [[nodiscard]] bool begin_use() const { return !place || place->begin_use(); }

  std::string_view text;
  std::shared_ptr<void> owner;
  std::shared_ptr<body_place> place; ///< none of a small one
};

} // namespace paceline::server

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::server {

/// Accounts for the memory of a body until its last owner is destroyed.
class body_place {
 public:
  virtual ~body_place() = default;
  /// The text is about to be read, so the body may not give way from now on. False if it had to give way
  /// before.
  [[nodiscard]] virtual bool begin_use() = 0;
};

/// A whole request body or WebSocket message. `owner` holds its memory: the parser keeps it until the text is
/// no longer needed. `place` accounts for that memory: it is kept until what was made of the text is gone,
/// too.
struct request_body {
  request_body() = default;
  request_body(std::string bytes) { // NOLINT: a text is a body
    auto kept = std::make_shared<std::string>(std::move(bytes));
    text = *kept;
    owner = std::move(kept);
  }
  request_body(std::string_view bytes, std::shared_ptr<void> kept, std::shared_ptr<body_place> counted)
      : text(bytes), owner(std::move(kept)), place(std::move(counted)) {}

  /// Must be called before the text is read: false if the body had to give way while it waited.
  [[nodiscard]] bool begin_use() const { return !place || place->begin_use(); }

  std::string_view text;
  std::shared_ptr<void> owner;
  std::shared_ptr<body_place> place; ///< null for a small body
};

} // namespace paceline::server

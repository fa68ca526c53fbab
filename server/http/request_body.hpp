#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace paceline::server {

/// Counts the memory of a body until the last owner of this object is destroyed.
class body_place {
 public:
  virtual ~body_place() = default;
  /// The text is about to be read: from now on `body_budget`, which limits the memory of all bodies, must
  /// not discard this one. False if it has already done so.
  [[nodiscard]] virtual bool begin_use() = 0;
};

/// A whole request body or WebSocket message. `owner` holds the memory and is released when the text is no
/// longer needed. `place` counts this memory in the budget and is released later, when the values parsed from
/// the text are also gone.
struct request_body {
  request_body() = default;
  request_body(std::string bytes) { // NOLINT: a text is a body
    auto kept = std::make_shared<std::string>(std::move(bytes));
    text = *kept;
    owner = std::move(kept);
  }
  request_body(std::string_view bytes, std::shared_ptr<void> kept, std::shared_ptr<body_place> counted)
      : text(bytes), owner(std::move(kept)), place(std::move(counted)) {}

  /// Must be called before the text is read. False if the budget took back the body's memory while the body
  /// waited.
  [[nodiscard]] bool begin_use() const { return !place || place->begin_use(); }

  std::string_view text;
  std::shared_ptr<void> owner;
  std::shared_ptr<body_place> place; ///< null for a small body
};

} // namespace paceline::server

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace paceline::apps {

/// Joins lines to messages. A line that ends with a backslash continues in the next line. A line that begins
/// with """ starts a message that goes on up to a line that ends with """:
///
///     at rest ── line\ ──▶ continued ── line ──▶ message
///        │ └── """line ──▶ quoted ── line""" ──▶ message
///        └── line ──▶ message
class message_lines {
 public:
  /// The message that `line` completes; nullopt if it completes none.
  std::optional<std::string> add(std::string_view line);
  /// True if the message is incomplete: another line must follow.
  bool is_open() const noexcept { return state_ != state::rest; }
  /// True if the message began with """ and has no closing """ yet.
  bool is_quoted() const noexcept { return state_ == state::quoted; }
  /// Ends an incomplete message; returns the lines so far.
  std::string finish();
  /// Forgets an incomplete message.
  void reset();

 private:
  enum class state : std::uint8_t { rest, continued, quoted };
  state state_ = state::rest;
  std::string text_;
};

/// The commands of `paceline chat`.
enum class chat_command : std::uint8_t { help, fresh, system, drafter, race, trace, bye };

/// A command with the text after its name.
struct chat_order {
  chat_command what;
  std::string argument;
};
/// A word that looks like a command but is none.
struct unknown_order {
  std::string word;
  std::string nearest; ///< command with a similar name; empty: none
};

/// Decides whether a message is a command: it begins with a slash and a word of letters. Any other message,
/// such as "/usr/bin" or a line that begins with a space, is returned as text for the model.
std::variant<std::string, chat_order, unknown_order> read_message(std::string message);

/// One line for each command.
std::string_view chat_help() noexcept;

} // namespace paceline::apps

#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace paceline::apps {

/// What came of asking for a line.
enum class line_outcome : std::uint8_t {
  line,
  interrupted, ///< Ctrl-C; what was typed is gone
  end,         ///< end of input, or Ctrl-D
};

/// Reads lines of standard input, after a prompt on standard error.
class line_reader {
 public:
  virtual ~line_reader() = default;
  /// The next line, without its line break, in `line`.
  virtual line_outcome read(const std::string& prompt, std::string& line) = 0;
  /// Keeps a message, which may have several lines, for the arrow keys and for the next time.
  virtual void remember(const std::string& message) = 0;
};

/// With line editing (libedit) and history where a terminal types and sees the line, otherwise plain lines.
/// `history`: file of the history, made for its owner alone; empty: it is forgotten at the end.
std::unique_ptr<line_reader> make_line_reader(const std::filesystem::path& history);

/// $XDG_STATE_HOME/paceline/chat_history, by default in ~/.local/state; empty if there is no home.
std::filesystem::path history_file();

} // namespace paceline::apps

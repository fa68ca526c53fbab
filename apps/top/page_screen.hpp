#pragma once

#include <csignal>
#include <cstddef>
#include <string_view>

namespace paceline::apps {

/// The page of `top`: the terminal's alternate screen, without a cursor, on which each text replaces the
/// previous one. If standard input is also a terminal, keys are not echoed, and each is read as soon as it is
/// pressed. The destructor restores the terminal. It is also restored while Ctrl-Z stops the process. At most
/// one object may exist at a time.
class page_screen {
 public:
  page_screen();
  ~page_screen();
  page_screen(const page_screen&) = delete;
  page_screen& operator=(const page_screen&) = delete;

  /// Shows the first lines of `text`, as many as the terminal has; nothing while the process is in the
  /// background. `text` must have no control characters except line breaks.
  void show(std::string_view text) const;
  /// Columns of the terminal.
  static std::size_t columns();

  /// For poll(): readable if a key was pressed; negative if no keys are read.
  int keyboard() const;
  /// Reads the keys that were pressed. True once one of them was q, or if the terminal is gone.
  bool quits();

 private:
  bool quits_ = false;
  struct sigaction stop_before_ {};
  struct sigaction continue_before_ {};
};

} // namespace paceline::apps

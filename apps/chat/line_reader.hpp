#pragma once

#include "apps/interrupt_watch.hpp"

#include <filesystem>
#include <memory>
#include <string>

namespace paceline::apps {

/// The outcome of reading a line.
enum class line_outcome : std::uint8_t {
  line,
  interrupted, ///< Ctrl-C; the text typed so far is dropped
  end,         ///< end of input, or Ctrl-D
};

/// Reads lines from standard input, after printing a prompt to standard error.
class line_reader {
 public:
  virtual ~line_reader() = default;
  /// Reads the next line, without its line break, into `line`.
  virtual line_outcome read(const std::string& prompt, std::string& line) = 0;
  /// Adds a message, which may have several lines, to the history.
  virtual void remember(const std::string& message) = 0;
};

/// A reader with line editing (libedit) and history if standard input and standard error are terminals;
/// otherwise a reader with neither. `history`: file of the history, created readable by its owner only;
/// empty: the history is not saved. An interrupt that `watch` records ends a read; the reader does not reset
/// `watch`, which must outlive the reader.
std::unique_ptr<line_reader> make_line_reader(const std::filesystem::path& history,
                                              const interrupt_watch& watch);

} // namespace paceline::apps

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {

/// The number of columns that a text takes in a terminal, by the locale's widths of characters. A character
/// that the locale does not know counts as one column.
std::size_t display_width(std::string_view text);

/// The beginning of `text` that fits into `columns`, in whole characters.
std::string_view fitting(std::string_view text, std::size_t columns);

/// `text`, cut or padded with spaces at its end to the width `columns`.
std::string padded(std::string_view text, std::size_t columns);

/// A part of a line. If the line is too long, whole parts are left out, because a number that is cut looks
/// like another number. The parts with the highest rank are left out first; parts of rank 0 stay.
struct line_part {
  std::string text;
  int rank = 0;
};
/// A line of at most `columns`, with its line break.
std::string line_of(std::vector<line_part> parts, std::size_t columns);

/// A column of numbers in a table. `rank` is as in `line_part`.
struct table_column {
  std::string_view title;
  std::size_t width;
  int rank;
};

/// Lines of a table that has names in its first column and numbers in the others. The first column is as wide
/// as its title, at least 8 and at most 24 characters. Columns of numbers that do not fit are left out in all
/// lines, the highest rank first.
class text_table {
 public:
  text_table(std::string_view title, std::vector<table_column> numbers, std::size_t columns);

  std::string head() const;
  /// `cells`: one for each column of numbers, even for those that are left out.
  std::string row(std::string_view name, const std::vector<std::string>& cells) const;

 private:
  std::string_view title_;
  std::vector<table_column> numbers_; ///< those that are left out have the width 0
  std::size_t columns_;
  std::size_t name_width_;
};

/// `text`, cut to `rows` lines, with the terminal commands that make it replace the previous page.
std::string page_of(std::string_view text, std::size_t rows);

} // namespace paceline::apps

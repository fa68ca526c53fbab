#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {

/// The columns that a text takes in a terminal. The locale tells how wide a character is; one that it does
/// not know counts as one column.
std::size_t display_width(std::string_view text);

/// The beginning of `text` that fits into `columns`, in whole characters.
std::string_view fitting(std::string_view text, std::size_t columns);

/// `text`, cut or with spaces behind it, so that it takes `columns`.
std::string padded(std::string_view text, std::size_t columns);

/// A part of a line. If the line is too long, whole parts are left out, because a number that is cut looks
/// like another number. Those with the highest rank go first; those of rank 0 stay.
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

/// Lines of a table whose first column has names, and the others numbers. Names get at least 8 columns (more
/// for a longer title) and at most 24; numbers that do not fit beside them are left out, in every line the
/// same.
class text_table {
 public:
  text_table(std::string_view title, std::vector<table_column> numbers, std::size_t columns);

  std::string head() const;
  /// `cells`: one for each column of numbers, whether it is shown or not.
  std::string row(std::string_view name, const std::vector<std::string>& cells) const;

 private:
  std::string_view title_;
  std::vector<table_column> numbers_; ///< those that are left out have the width 0
  std::size_t columns_;
  std::size_t name_width_;
};

/// `text` as a page of `rows` lines that replaces the page before.
std::string page_of(std::string_view text, std::size_t rows);

} // namespace paceline::apps

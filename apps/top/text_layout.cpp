#include "apps/top/text_layout.hpp"

#include "runtime/base/utf8.hpp"

#include <algorithm>
#include <cwchar>
#include <utility>

namespace paceline::apps {

namespace {

std::size_t width_of(char32_t character) {
  const int width = wcwidth(static_cast<wchar_t>(character));
  return width < 0 ? 1 : static_cast<std::size_t>(width);
}

} // namespace

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto unit = read_utf8(text, at);
    width += width_of(unit.code_point);
    at += unit.num_bytes;
  }
  return width;
}

std::string_view fitting(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  for (std::size_t width = 0; at < text.size();) {
    const auto unit = read_utf8(text, at);
    width += width_of(unit.code_point);
    if (width > columns) break;
    at += unit.num_bytes;
  }
  return text.substr(0, at);
}

std::string padded(std::string_view text, std::size_t columns) {
  std::string out(fitting(text, columns));
  return out.append(columns - display_width(out), ' ');
}

std::string line_of(std::vector<line_part> parts, std::size_t columns) {
  std::size_t width = 0;
  for (const auto& part : parts) width += display_width(part.text);
  while (width > columns) {
    const auto last = std::ranges::max_element(parts, {}, &line_part::rank);
    if (last == parts.end() || last->rank == 0) break;
    width -= display_width(last->text);
    parts.erase(last);
  }
  std::string line;
  for (const auto& part : parts) line += part.text;
  return std::string(fitting(line, columns)) + "\n";
}

text_table::text_table(std::string_view title, std::vector<table_column> numbers, std::size_t columns)
    : title_(title), numbers_(std::move(numbers)), columns_(columns) {
  const auto narrowest = std::max<std::size_t>(8, title.size());
  constexpr std::size_t widest = 24;
  std::size_t taken = 0;
  for (const auto& number : numbers_) taken += 1 + number.width;
  while (taken > 0 && taken + narrowest > columns) {
    const auto last = std::ranges::max_element(
        numbers_, {}, [](const table_column& each) { return each.width == 0 ? -1 : each.rank; });
    taken -= 1 + last->width;
    last->width = 0;
  }
  name_width_ = std::max(narrowest, std::min(std::max(columns, taken) - taken, widest));
}

std::string text_table::head() const {
  std::vector<std::string> titles;
  for (const auto& number : numbers_) titles.emplace_back(number.title);
  return row(title_, titles);
}

std::string text_table::row(std::string_view name, const std::vector<std::string>& cells) const {
  std::string line = padded(name, name_width_);
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    if (numbers_[i].width == 0) continue;
    line.append(1 + numbers_[i].width - std::min(cells[i].size(), numbers_[i].width), ' ').append(cells[i]);
  }
  return std::string(fitting(line, columns_)) + "\n";
}

std::string page_of(std::string_view text, std::size_t rows) {
  std::string page = "\x1b[H";
  for (std::size_t row = 1; !text.empty(); ++row) {
    const auto end = std::min(text.find('\n'), text.size());
    // A line is erased before it is written: after a line as wide as the terminal, the cursor stands on the
    // last character, which would be erased, too.
    page.append("\x1b[K").append(text.substr(0, end));
    if (row == rows) return page; // a line break would scroll the first line away
    page += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return page + "\x1b[J";
}

} // namespace paceline::apps

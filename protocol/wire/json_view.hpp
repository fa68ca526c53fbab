#pragma once

#include "runtime/base/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::wire {

class json_elements;
class json_members;

/// One value of a JSON text that parse_object has checked. It refers to the text and converts values when
/// they are read, so a body of millions of values needs no memory beyond its text.
class json_view {
 public:
  /// `text` must be one well-formed JSON value without surrounding whitespace.
  explicit json_view(std::string_view text) : text_(text) {}

  std::string_view source() const noexcept { return text_; }
  bool is_null() const noexcept { return text_.front() == 'n'; }
  bool is_bool() const noexcept { return text_.front() == 't' || text_.front() == 'f'; }
  bool is_string() const noexcept { return text_.front() == '"'; }
  bool is_array() const noexcept { return text_.front() == '['; }
  bool is_object() const noexcept { return text_.front() == '{'; }
  bool is_number() const noexcept { return text_.front() == '-' || is_digit(text_.front()); }

  /// The value as this type; nullopt if it has another type. Numbers are not rounded: an integer has neither
  /// fraction nor exponent and must be in range.
  std::optional<bool> boolean() const;
  std::optional<std::int64_t> int64() const;
  std::optional<std::uint64_t> uint64() const;
  std::optional<double> number() const;
  std::optional<std::string> string() const;
  /// True if it is a string equal to `expected`; makes no copy.
  bool is_string(std::string_view expected) const;

  /// The elements of an array, or the members of an object; empty for a value of another type.
  json_elements elements() const;
  json_members members() const;

 private:
  static bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

  std::string_view text_;
};

/// A member of an object. `raw_name` is the name as spelled in the text, with escapes; `name` is without
/// them.
struct json_member {
  std::string_view raw_name;
  json_view value{"null"};
  std::string name() const;
  bool is_named(std::string_view name) const;
};

/// The elements of an array in order. An iteration over all elements reads the array's text once.
class json_elements {
 public:
  class iterator {
   public:
    iterator(std::string_view text, std::size_t at);
    json_view operator*() const { return json_view(text_.substr(begin_, end_ - begin_)); }
    iterator& operator++();
    bool operator==(const iterator& other) const noexcept { return begin_ == other.begin_; }

   private:
    void find_end();
    std::string_view text_;
    std::size_t begin_ = 0, end_ = 0;
  };
  explicit json_elements(std::string_view text) : text_(text) {}
  iterator begin() const { return {text_, 1}; }
  iterator end() const { return {text_, text_.size()}; }
  bool empty() const { return begin() == end(); }
  std::size_t count() const;

 private:
  std::string_view text_; ///< "[...]"
};

/// The members of an object in order, repeated names included.
class json_members {
 public:
  class iterator {
   public:
    iterator(std::string_view text, std::size_t at);
    json_member operator*() const;
    iterator& operator++();
    bool operator==(const iterator& other) const noexcept { return begin_ == other.begin_; }

   private:
    void find_end();
    std::string_view text_;
    std::size_t begin_ = 0, name_end_ = 0, value_begin_ = 0, end_ = 0;
  };
  explicit json_members(std::string_view text) : text_(text) {}
  iterator begin() const { return {text_, 1}; }
  iterator end() const { return {text_, text_.size()}; }
  bool empty() const { return begin() == end(); }

 private:
  std::string_view text_; ///< "{...}"
};

/// The value of the last member called `name`; nullopt if there is none or `object` is not an object.
std::optional<json_view> member_of(json_view object, std::string_view name);

/// The elements as token ids, which are integers in [0, 2^31); nullopt if any element is something else. Uses
/// no memory beyond the result's 4 bytes for each token.
std::optional<std::vector<token_id>> read_token_ids(json_elements elements);

/// Number of JSON values in `value`, including itself: the number of nodes that a tree of it would have.
std::size_t count_values(json_view value);
/// The text without whitespace between its tokens.
std::string compact(json_view value);

} // namespace paceline::wire

#include "runtime/tokenizer/chat_template/exact_json.hpp"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>

#include <charconv>
#include <cmath>
#include <limits>
#include <string>

namespace paceline::tokenizer {

namespace {

using boost::json::error_code;
using boost::json::string_view;

/// Builds the value as boost::json::parser does, except for floating-point numbers, which it reads itself.
struct exact_handler {
  static constexpr std::size_t max_object_size = boost::json::object::max_size();
  static constexpr std::size_t max_array_size = boost::json::array::max_size();
  static constexpr std::size_t max_key_size = boost::json::string::max_size();
  static constexpr std::size_t max_string_size = boost::json::string::max_size();

  boost::json::value_stack stack;
  std::string number; ///< the part of a number seen so far
  std::string refused_integer;

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_object_begin(error_code&) { return true; }
  bool on_object_end(std::size_t count, error_code&) { return stack.push_object(count), true; }
  bool on_array_begin(error_code&) { return true; }
  bool on_array_end(std::size_t count, error_code&) { return stack.push_array(count), true; }
  bool on_key_part(string_view text, std::size_t, error_code&) { return stack.push_chars(text), true; }
  bool on_key(string_view text, std::size_t, error_code&) { return stack.push_key(text), true; }
  bool on_string_part(string_view text, std::size_t, error_code&) { return stack.push_chars(text), true; }
  bool on_string(string_view text, std::size_t, error_code&) { return stack.push_string(text), true; }
  bool on_number_part(string_view text, error_code&) { return number.append(text.data(), text.size()), true; }
  bool on_int64(std::int64_t v, string_view, error_code&) {
    return number.clear(), stack.push_int64(v), true;
  }
  bool on_uint64(std::uint64_t v, string_view, error_code&) {
    return number.clear(), stack.push_uint64(v), true;
  }
  bool on_bool(bool v, error_code&) { return stack.push_bool(v), true; }
  bool on_null(error_code&) { return stack.push_null(), true; }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

  /// `approximate`: the value as Boost converts it.
  bool on_double(double approximate, string_view text, error_code& code) {
    number.append(text.data(), text.size());
    if (number.find_first_of(".eE") == std::string::npos) {
      refused_integer = number;
      code = boost::json::error::not_exact;
      return false;
    }
    double exact = 0;
    const auto read = std::from_chars(number.data(), number.data() + number.size(), exact);
    if (read.ec == std::errc::result_out_of_range) { // Python makes it infinite or zero
      exact = std::abs(approximate) < 1 ? 0.0 : std::numeric_limits<double>::infinity();
      if (number.front() == '-') exact = -exact;
    }
    number.clear();
    stack.push_double(exact);
    return true;
  }
};

} // namespace

expected<boost::json::value> parse_exact_json(std::string_view text, std::size_t max_depth) {
  boost::json::parse_options options;
  options.max_depth = max_depth;
  boost::json::basic_parser<exact_handler> parser(options);
  parser.handler().stack.reset();
  error_code code;
  const std::size_t read = parser.write_some(false, text.data(), text.size(), code);
  if (!parser.handler().refused_integer.empty())
    return error{errc::invalid_argument,
                 "not offered: the integer " + parser.handler().refused_integer + " is beyond 64 bits"};
  if (!code && read < text.size() && text.find_first_not_of(" \t\r\n", read) != std::string_view::npos)
    code = boost::json::error::extra_data;
  if (code) return error{errc::invalid_argument, "not JSON: " + code.message()};
  return parser.handler().stack.release();
}

} // namespace paceline::tokenizer

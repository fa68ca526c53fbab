#include "runtime/model/loader/hugging_face/json_text.hpp"

#include "runtime/base/quote.hpp"
#include "runtime/model/loader/partial_file.hpp"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

namespace paceline::model {

namespace {

namespace json = boost::json;

constexpr std::size_t max_depth = 64;
constexpr std::size_t max_file_bytes = std::size_t{64} << 20;

/// Builds the document like Boost's parser. It also stores the keys of open objects to detect duplicate keys.
/// Boost alone would silently keep the last of them.
class document_builder {
 public:
  static constexpr std::size_t max_object_size = json::object::max_size();
  static constexpr std::size_t max_array_size = json::array::max_size();
  static constexpr std::size_t max_key_size = json::string::max_size();
  static constexpr std::size_t max_string_size = json::string::max_size();

  json::value release() { return stack_.release(); }
  const std::string& duplicate() const noexcept { return duplicate_; }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) {
    open_keys_.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t size, json::error_code& ec) {
    auto& keys = open_keys_.back();
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) {
      duplicate_ = *twice;
      ec = make_error_code(json::error::syntax);
      return false;
    }
    open_keys_.pop_back();
    stack_.push_object(size);
    return true;
  }
  bool on_array_begin(json::error_code&) { return true; }
  bool on_array_end(std::size_t size, json::error_code&) {
    stack_.push_array(size);
    return true;
  }
  bool on_key_part(json::string_view part, std::size_t, json::error_code&) {
    key_.append(part.data(), part.size());
    stack_.push_chars(part);
    return true;
  }
  bool on_key(json::string_view part, std::size_t, json::error_code&) {
    key_.append(part.data(), part.size());
    open_keys_.back().push_back(std::move(key_));
    key_.clear();
    stack_.push_key(part);
    return true;
  }
  bool on_string_part(json::string_view part, std::size_t, json::error_code&) {
    stack_.push_chars(part);
    return true;
  }
  bool on_string(json::string_view part, std::size_t, json::error_code&) {
    stack_.push_string(part);
    return true;
  }
  bool on_number_part(json::string_view, json::error_code&) { return true; }
  bool on_int64(std::int64_t value, json::string_view, json::error_code&) {
    stack_.push_int64(value);
    return true;
  }
  bool on_uint64(std::uint64_t value, json::string_view, json::error_code&) {
    stack_.push_uint64(value);
    return true;
  }
  bool on_double(double value, json::string_view, json::error_code&) {
    stack_.push_double(value);
    return true;
  }
  bool on_bool(bool value, json::error_code&) {
    stack_.push_bool(value);
    return true;
  }
  bool on_null(json::error_code&) {
    stack_.push_null();
    return true;
  }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  json::value_stack stack_;
  std::vector<std::vector<std::string>> open_keys_;
  std::string key_;
  std::string duplicate_;
};

error failure(std::string_view file, const std::string& rule) {
  return error(errc::invalid_file, std::string(file) + ": " + rule);
}

} // namespace

expected<json::object> parse_json_object(std::string_view text, std::string_view file) try {
  json::parse_options options;
  options.max_depth = max_depth;
  json::basic_parser<document_builder> parser(options);
  json::error_code ec;
  const auto consumed = parser.write_some(false, text.data(), text.size(), ec);
  if (!parser.handler().duplicate().empty())
    return failure(file, "key " + quote(parser.handler().duplicate()) + " occurs twice in one object");
  if (ec) return failure(file, "not valid JSON at byte " + std::to_string(consumed) + ": " + ec.message());
  if (consumed != text.size())
    return failure(file, "something follows the JSON at byte " + std::to_string(consumed));
  auto value = parser.handler().release();
  if (!value.is_object()) return failure(file, "must be a JSON object");
  return std::move(value.get_object());
} catch (const std::exception& problem) {
  return failure(file, std::string("cannot be read as JSON: ") + problem.what());
}

expected<json::object> read_json_file(const std::filesystem::path& path) {
  const auto file = partial_file::open(path);
  if (!file) return file.error();
  const auto bytes = (*file)->bytes();
  if (bytes.size() > max_file_bytes) return failure(path.string(), "is larger than 64 MiB");
  if (auto read = (*file)->read(bytes); !read) return std::move(read).error();
  return parse_json_object({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path.string());
}

} // namespace paceline::model

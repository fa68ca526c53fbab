#include "runtime/model/loader/hugging_face/safetensors_header.hpp"

#include "runtime/base/quote.hpp"

#include <boost/json/basic_parser_impl.hpp>

#include <algorithm>
#include <exception>
#include <numeric>
#include <optional>
#include <utility>

namespace paceline::model {

namespace {

namespace json = boost::json;
using device::tensor_type;

constexpr std::size_t max_metadata_keys = 4096;
constexpr std::string_view metadata_name = "__metadata__";
// The shortest entry has about 50 characters; a growing list has capacity for up to twice its entries.
static_assert(2 * sizeof(safetensors_entry) <= 4 * 50);

/// Follows the header's fixed shape event by event:
///
///     { "__metadata__": { key: string, ... }, name: { "dtype": string, "shape": [uint, ...], "data_offsets":
///     [a, b] } }
class header_handler {
 public:
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = 65535;
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

  std::vector<safetensors_entry>& entries() noexcept { return entries_; }
  const std::optional<std::pair<errc, std::string>>& problem() const noexcept { return problem_; }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }
  bool on_number_part(json::string_view, json::error_code&) { return true; }

  bool on_object_begin(json::error_code& ec) {
    if (place_ == place::outside) return enter(place::header);
    if (place_ != place::header) return refuse(ec, "holds an object where none may be");
    if (entry_.name == metadata_name) return enter(place::metadata);
    fields_ = 0;
    return enter(place::tensor);
  }

  bool on_object_end(std::size_t, json::error_code& ec) {
    if (place_ == place::metadata) {
      std::sort(metadata_keys_.begin(), metadata_keys_.end());
      const auto twice = std::adjacent_find(metadata_keys_.begin(), metadata_keys_.end());
      if (twice != metadata_keys_.end()) return refuse(ec, "key " + quote(*twice) + " occurs twice");
      return enter(place::header);
    }
    if (place_ == place::header) return enter(place::outside);
    if (fields_ != (dtype_field | shape_field | offsets_field))
      return refuse(ec, "must have dtype, shape and data_offsets");
    entries_.push_back(std::exchange(entry_, {}));
    return enter(place::header);
  }

  bool on_key_part(json::string_view part, std::size_t, json::error_code&) {
    text_.append(part.data(), part.size());
    return true;
  }

  bool on_key(json::string_view part, std::size_t, json::error_code& ec) {
    text_.append(part.data(), part.size());
    auto key = std::exchange(text_, {});
    if (place_ == place::header) {
      entry_ = {};
      entry_.name = std::move(key);
      // A second "__metadata__" would not be among the entries that are compared later.
      if (entry_.name == metadata_name && std::exchange(has_metadata_, true))
        return refuse(ec, "occurs twice");
      return true;
    }
    if (place_ == place::metadata) {
      if (metadata_keys_.size() == max_metadata_keys) return refuse(ec, "has more than 4096 keys");
      metadata_keys_.push_back(std::move(key));
      return true;
    }
    field_ = key == "dtype"          ? dtype_field
             : key == "shape"        ? shape_field
             : key == "data_offsets" ? offsets_field
                                     : 0;
    if (field_ == 0) return refuse(ec, "has the unknown key " + quote(key));
    if ((fields_ & field_) != 0) return refuse(ec, "key " + quote(key) + " occurs twice");
    fields_ |= field_;
    return true;
  }

  bool on_string_part(json::string_view part, std::size_t, json::error_code&) {
    if (place_ == place::tensor && text_.size() < 64) text_.append(part.data(), part.size());
    return true;
  }

  bool on_string(json::string_view part, std::size_t size, json::error_code& ec) {
    if (place_ == place::metadata) return true;
    if (place_ != place::tensor || field_ != dtype_field)
      return refuse(ec, "holds a string where none may be");
    on_string_part(part, size, ec);
    return set_dtype(std::exchange(text_, {}), ec);
  }

  bool on_array_begin(json::error_code& ec) {
    if (place_ != place::tensor || field_ == dtype_field)
      return refuse(ec, "holds an array where none may be");
    num_offsets_ = 0;
    return enter(place::numbers);
  }

  bool on_array_end(std::size_t, json::error_code& ec) {
    if (field_ == offsets_field && num_offsets_ != 2) return refuse(ec, "data_offsets must be two numbers");
    return enter(place::tensor);
  }

  bool on_int64(std::int64_t value, json::string_view, json::error_code& ec) {
    if (place_ != place::numbers || value < 0)
      return refuse(ec, "holds a number where none may be, or a negative one");
    const auto number = static_cast<std::uint64_t>(value);
    if (field_ == shape_field) {
      if (entry_.num_dims == entry_.shape.size()) return refuse(ec, "has more than 5 dimensions");
      entry_.shape[entry_.num_dims++] = number;
    } else {
      if (num_offsets_ < 2) (num_offsets_ == 0 ? entry_.begin : entry_.end) = number;
      num_offsets_ = std::min(num_offsets_ + 1, 3);
    }
    return true;
  }

  bool on_uint64(std::uint64_t, json::string_view, json::error_code& ec) {
    return refuse(ec, "holds a number of 2^63 or more");
  }
  bool on_double(double, json::string_view, json::error_code& ec) { return refuse(ec, "holds a fraction"); }
  bool on_bool(bool, json::error_code& ec) { return refuse(ec, "holds true or false"); }
  bool on_null(json::error_code& ec) { return refuse(ec, "holds null"); }

 private:
  enum class place : std::uint8_t { outside, header, metadata, tensor, numbers };
  static constexpr unsigned dtype_field = 1;
  static constexpr unsigned shape_field = 2;
  static constexpr unsigned offsets_field = 4;

  bool enter(place next) noexcept {
    place_ = next;
    return true;
  }

  bool refuse(json::error_code& ec, const std::string& rule, errc code = errc::invalid_file) {
    ec = make_error_code(json::error::syntax);
    const bool at_top = place_ == place::outside || (place_ == place::header && entry_.name.empty());
    problem_ = {code, (at_top ? std::string("header") : "tensor " + quote(entry_.name)) + " " + rule};
    return false;
  }

  bool set_dtype(const std::string& name, json::error_code& ec) {
    if (name == "F32")
      entry_.type = tensor_type::f32;
    else if (name == "F16")
      entry_.type = tensor_type::f16;
    else if (name == "BF16")
      entry_.type = tensor_type::bf16;
    else if (name == "F8_E4M3")
      entry_.type = tensor_type::f8_e4m3;
    else if (name == "I64")
      entry_.integer_bytes = 8;
    else if (name == "BOOL")
      entry_.integer_bytes = 1;
    else
      return refuse(ec, "has dtype " + quote(name) + "; supported are F32, F16, BF16, F8_E4M3, I64 and BOOL",
                    errc::unsupported);
    return true;
  }

  place place_ = place::outside;
  unsigned field_ = 0;  ///< the field whose value comes next
  unsigned fields_ = 0; ///< fields of the current tensor seen so far
  int num_offsets_ = 0;
  bool has_metadata_ = false;
  std::string text_; ///< of a key or string that arrives in parts
  safetensors_entry entry_;
  std::vector<safetensors_entry> entries_;
  std::vector<std::string> metadata_keys_;
  std::optional<std::pair<errc, std::string>> problem_;
};

error bad_header(std::string_view file, const std::string& rule, errc code = errc::invalid_file) {
  return error(code, std::string(file) + ": " + rule);
}

} // namespace

expected<std::vector<safetensors_entry>> parse_safetensors_header(std::string_view text,
                                                                  std::string_view file) try {
  json::parse_options options;
  options.max_depth = 4;
  json::basic_parser<header_handler> parser(options);
  json::error_code ec;
  const auto consumed = parser.write_some(false, text.data(), text.size(), ec);
  if (const auto& problem = parser.handler().problem())
    return bad_header(file, problem->second, problem->first);
  if (ec || consumed != text.size())
    return bad_header(file, "header is not valid JSON at its byte " + std::to_string(consumed));

  auto& entries = parser.handler().entries();
  std::vector<std::uint32_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return entries[a].name < entries[b].name; });
  const auto twice = std::adjacent_find(order.begin(), order.end(),
                                        [&](auto a, auto b) { return entries[a].name == entries[b].name; });
  if (twice != order.end())
    return bad_header(file, "tensor " + quote(entries[*twice].name) + " occurs twice");
  return std::move(entries);
} catch (const std::exception& problem) {
  return bad_header(file, std::string("header cannot be read: ") + problem.what());
}

} // namespace paceline::model

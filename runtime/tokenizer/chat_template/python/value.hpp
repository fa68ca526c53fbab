#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace paceline::tokenizer::jinja {

/// Integers have 128 bits, which is enough for JSON's 64-bit numbers, signed or unsigned, and for their sums
/// and products. Python's integers are unlimited; here an overflow is an error.
__extension__ using wide_int = __int128;

enum class value_type : std::uint8_t {
  missing, ///< internal: a variable that was never set; templates cannot see it
  undefined,
  none,
  boolean,
  integer,
  real,
  string,
  list,
  tuple,
  dict,
  dict_view, ///< dict.keys(), .values(), .items()
  range,
  iterator, ///< Python's generators and reversed(): can be iterated once
  name_space,
  function,
  method,
  macro,
  loop,
  cycler,
  joiner,
  block,
  template_reference, ///< the variable `self`
};

/// Why a value is undefined; selects the message when it is used.
enum class undefined_reason : std::uint8_t { variable, attribute, unsafe_attribute, described };

struct object;
struct list_object;
struct dict_object;

/// A Python value: 32 bytes, cheap to copy. Values own nothing: their text and objects belong to the
/// rendering's heap, the template or the caller's variables, which live until the rendering ends. So cyclic
/// references cannot leak memory.
class value {
 public:
  value() noexcept : integer_(0) {}

  static value none() noexcept { return value(value_type::none); }
  static value of(bool flag) noexcept {
    value v(value_type::boolean);
    v.integer_ = flag ? 1 : 0;
    return v;
  }
  static value of_integer(wide_int number) noexcept {
    value v(value_type::integer);
    v.integer_ = number;
    return v;
  }
  static value of_real(double number) noexcept {
    value v(value_type::real);
    v.real_ = number;
    return v;
  }
  /// `markup`: a string of markupsafe, as made by the filters `safe` and `escape`.
  static value of_text(std::string_view text, bool markup = false) noexcept {
    value v(value_type::string);
    v.markup_ = markup;
    v.set_text(text);
    return v;
  }
  static value of_object(value_type type, object* held) noexcept {
    value v(type);
    v.object_ = held;
    return v;
  }
  /// `text` is the name that was looked up, or the whole message for `described`; `owner` is the type of the
  /// value in which the name was looked up.
  static value undefined(undefined_reason reason, std::string_view text,
                         value_type owner = value_type::missing) noexcept {
    value v(value_type::undefined);
    v.reason_ = reason;
    v.owner_ = owner;
    v.set_text(text);
    return v;
  }

  value_type type() const noexcept { return type_; }
  bool is(value_type type) const noexcept { return type_ == type; }
  bool is_missing() const noexcept { return type_ == value_type::missing; }
  bool is_undefined() const noexcept { return type_ == value_type::undefined; }
  bool is_none() const noexcept { return type_ == value_type::none; }
  bool is_string() const noexcept { return type_ == value_type::string; }
  /// Python's bool is an int.
  bool is_integral() const noexcept { return type_ == value_type::integer || type_ == value_type::boolean; }
  bool is_number() const noexcept { return is_integral() || type_ == value_type::real; }

  bool boolean() const noexcept { return integer_ != 0; }
  wide_int integer() const noexcept { return integer_; }
  double real() const noexcept { return real_; }
  std::string_view text() const noexcept { return {text_.data, text_.size}; }
  bool markup() const noexcept { return markup_; }
  undefined_reason reason() const noexcept { return reason_; }
  value_type owner() const noexcept { return owner_; }
  object* held() const noexcept { return object_; }
  template <class Object>
  Object& as() const noexcept {
    return static_cast<Object&>(*object_);
  }

 private:
  explicit value(value_type type) noexcept : type_(type), integer_(0) {}
  void set_text(std::string_view text) noexcept {
    text_.data = text.data();
    text_.size = text.size();
  }

  value_type type_ = value_type::missing;
  bool markup_ = false;
  undefined_reason reason_ = undefined_reason::variable;
  value_type owner_ = value_type::missing;
  union {
    wide_int integer_;
    double real_;
    struct {
      const char* data;
      std::size_t size;
    } text_;
    object* object_;
  };
};

/// Python's name of the type in error messages: "str", "NoneType".
std::string_view type_name(const value& v) noexcept;

} // namespace paceline::tokenizer::jinja

#pragma once

#include "runtime/tokenizer/chat_template/python/objects.hpp"

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace paceline::tokenizer::jinja {

/// Everything one rendering makes, and the budget it may spend. Nothing is freed before the end; a template
/// is a short program, and its budget bounds what it can pile up. Not thread-safe: one heap per rendering.
class heap {
 public:
  heap(std::size_t max_steps, std::size_t max_bytes) : steps_left_(max_steps), bytes_left_(max_bytes) {}

  /// One evaluated node, loop turn or element costs one step.
  void step(std::size_t count = 1) {
    if (count > steps_left_) out_of_steps();
    steps_left_ -= count;
  }
  /// Looking through text costs a step per KiB, so that no operation is much dearer than what it pays.
  void scan(std::size_t num_bytes) { step(1 + num_bytes / 1024); }

  /// Fails unless `num_bytes` more may be allocated. To be called before building anything of a size that a
  /// template chooses; the amount is charged when the result is kept.
  void require(std::size_t num_bytes) const {
    if (num_bytes > bytes_left_) out_of_memory();
  }
  void charge(std::size_t num_bytes) {
    require(num_bytes);
    bytes_left_ -= num_bytes;
  }

  value keep(std::string text, bool markup = false);
  /// The view stays valid as long as the heap.
  std::string_view keep_view(std::string text) { return keep(std::move(text)).text(); }
  value list(std::vector<value> items);
  value tuple(std::vector<value> items);
  value pair(const value& first, const value& second) { return tuple({first, second}); }
  value dict(dict_object& held) { return value::of_object(value_type::dict, &held); }
  value iterator(std::vector<value> items, std::string_view type_name = "generator");
  value undefined(std::string message);

  template <class Object>
  Object& make() {
    charge(sizeof(Object) + sizeof(void*));
    auto made = std::make_unique<Object>();
    Object& result = *made;
    objects_.push_back(std::move(made));
    return result;
  }

 private:
  [[noreturn]] static void out_of_steps();
  [[noreturn]] static void out_of_memory();

  std::size_t steps_left_, bytes_left_;
  std::deque<std::string> strings_; ///< a deque: short strings live inside their element, which must not move
  std::vector<std::unique_ptr<object>> objects_;
};

} // namespace paceline::tokenizer::jinja

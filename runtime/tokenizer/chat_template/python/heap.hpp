#pragma once

#include "runtime/tokenizer/chat_template/python/objects.hpp"

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace paceline::tokenizer::jinja {

/// Everything that one rendering allocates, and its budget of steps and bytes. If a call exceeds the budget,
/// it throws `failure` with errc::resource_exhausted. Nothing is freed before the end, because a template is
/// a short program. Not thread-safe: one heap for each rendering.
class heap {
 public:
  heap(std::size_t max_steps, std::size_t max_bytes) : steps_left_(max_steps), bytes_left_(max_bytes) {}

  /// One evaluated node, loop iteration or element costs one step.
  void step(std::size_t count = 1) {
    if (count > steps_left_) out_of_steps();
    steps_left_ -= count;
  }
  /// Scanning text costs one step for each KiB, so that no operation is much more expensive than its steps.
  void scan(std::size_t num_bytes) { step(1 + num_bytes / 1024); }

  /// Throws unless `num_bytes` more bytes may be allocated. Must be called before an object is built whose
  /// size depends on the template. The bytes are charged when the object is kept (`keep` and others).
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
  /// A deque, because short strings are stored inside their element, which must not move.
  std::deque<std::string> strings_;
  std::vector<std::unique_ptr<object>> objects_;
};

} // namespace paceline::tokenizer::jinja

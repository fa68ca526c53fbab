#include "runtime/tokenizer/chat_template/python/heap.hpp"

namespace paceline::tokenizer::jinja {

value heap::keep(std::string text, bool markup) {
  charge(sizeof(std::string) + text.size());
  return value::of_text(strings_.emplace_back(std::move(text)), markup);
}

value heap::list(std::vector<value> items) {
  charge(items.size() * sizeof(value));
  auto& made = make<list_object>();
  made.items = std::move(items);
  return value::of_object(value_type::list, &made);
}

value heap::tuple(std::vector<value> items) {
  charge(items.size() * sizeof(value));
  auto& made = make<list_object>();
  made.items = std::move(items);
  return value::of_object(value_type::tuple, &made);
}

value heap::iterator(std::vector<value> items, std::string_view type_name) {
  charge(items.size() * sizeof(value));
  auto& made = make<iterator_object>();
  made.items = std::move(items);
  made.type_name = type_name;
  return value::of_object(value_type::iterator, &made);
}

value heap::undefined(std::string message) {
  return value::undefined(undefined_reason::described, keep_view(std::move(message)));
}

void heap::out_of_steps() { fail_limit("the template takes more steps than allowed"); }
void heap::out_of_memory() { fail_limit("the template needs more memory than allowed"); }

} // namespace paceline::tokenizer::jinja

#pragma once

#include "runtime/tokenizer/chat_template/options.hpp"
#include "runtime/tokenizer/chat_template/python/heap.hpp"

namespace paceline::tokenizer::jinja {

/// State that all operations of one rendering share.
class runtime {
 public:
  runtime(const template_options& chosen, const render_limits& allowed)
      : memory(allowed.max_steps, allowed.max_memory_bytes), options(chosen), limits(allowed) {}

  heap memory;
  const template_options& options;
  const render_limits& limits;

 private:
  friend class nesting_guard;
  int nesting_ = 0;
};

/// Limits the recursion of operations on nested values, because templates can nest values arbitrarily deep.
class nesting_guard {
 public:
  explicit nesting_guard(runtime& rt) : rt_(rt) {
    if (rt_.nesting_ >= max_nesting) fail_limit("values are nested deeper than 200 levels");
    ++rt_.nesting_;
  }
  nesting_guard(const nesting_guard&) = delete;
  nesting_guard& operator=(const nesting_guard&) = delete;
  ~nesting_guard() { --rt_.nesting_; }

 private:
  static constexpr int max_nesting = 200;
  runtime& rt_;
};

} // namespace paceline::tokenizer::jinja

#pragma once

#include "runtime/tokenizer/chat_template/evaluation/interpreter.hpp"

namespace paceline::tokenizer::jinja {

/// `self.name`: a named block that can be called to render it again.
struct block_object final : object {
  interpreter* renderer = nullptr;
  const block_statement* block = nullptr;
  std::string render() const { return renderer->run_named_block(*block, nullptr); }
};

/// The variable `self`, whose attributes are the template's blocks.
struct template_object final : object {
  interpreter* renderer = nullptr;
  std::string describe(runtime&) override { return "<TemplateReference None>"; }
  std::optional<value> attribute(runtime& rt, std::string_view name) override {
    const block_statement* found = renderer->find_block(name);
    if (found == nullptr) return std::nullopt;
    auto& made = rt.memory.make<block_object>();
    made.renderer = renderer;
    made.block = found;
    return value::of_object(value_type::block, &made);
  }
};

} // namespace paceline::tokenizer::jinja

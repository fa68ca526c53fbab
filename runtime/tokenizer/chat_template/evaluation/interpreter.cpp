#include "runtime/tokenizer/chat_template/evaluation/interpreter.hpp"

#include "runtime/tokenizer/chat_template/evaluation/blocks.hpp"
#include "runtime/tokenizer/chat_template/evaluation/globals.hpp"
#include "runtime/tokenizer/chat_template/python/printing.hpp"

#include <algorithm>

/// The interpreter's statements and scopes.
namespace paceline::tokenizer::jinja {

std::string interpreter::run() {
  exported_ = &rt_.memory.make<dict_object>();
  in_function(tree_.frame, nullptr, [&] {
    if (tree_.self_slot >= 0) {
      auto& self = rt_.memory.make<template_object>();
      self.renderer = this;
      here_->slots[static_cast<std::size_t>(tree_.self_slot)] =
          value::of_object(value_type::template_reference, &self);
    }
    enter(tree_.scope);
    (void)run_block(tree_.body);
  });
  return std::move(output_);
}

interpreter::flow interpreter::run_block(const block& body) {
  for (const auto& s : body)
    if (const flow after = run_statement(*s); after != flow::normal) return after;
  return flow::normal;
}

interpreter::flow interpreter::run_statement(const statement& s) {
  line_ = s.line;
  rt_.memory.step();
  if (levels_ >= max_levels) fail_limit("the template nests too deeply");
  const scoped_value<int> deeper(levels_, levels_ + 1);
  return std::visit([&](const auto& node) { return run_node(node); }, s.node);
}

void interpreter::write(std::string_view text) {
  rt_.memory.scan(text.size());
  if (out_ == &output_) {
    if (text.size() > rt_.limits.max_output_bytes - output_.size())
      fail_limit("the text is longer than the " + std::to_string(rt_.limits.max_output_bytes) +
                 " bytes allowed");
  } else {
    rt_.memory.require(out_->size() + text.size());
  }
  *out_ += text;
}

/// The result of a {% call %} or {% filter %} is joined without conversion: it must be text already.
void interpreter::write_text_only(const value& v) {
  if (!v.is_string()) fail("expected str instance, " + std::string(type_name(v)) + " found");
  write(v.text());
}

interpreter::flow interpreter::run_node(const output_statement& node) {
  for (const output_part& part : node.parts) {
    if (part.shown == nullptr) {
      write(part.text);
      continue;
    }
    const value v = eval(*part.shown);
    line_ = part.shown->line;
    if (v.is_string())
      write(v.text());
    else
      write(str(rt_, v));
  }
  return flow::normal;
}

interpreter::flow interpreter::run_node(const if_statement& node) {
  for (const auto& [test, body] : node.branches)
    if (is_true(*test)) return run_block(body);
  return run_block(node.otherwise);
}

interpreter::flow interpreter::run_node(const set_statement& node) {
  require_namespaces(node.where);
  const value assigned = eval(*node.assigned);
  assign(node.where, assigned);
  return flow::normal;
}

interpreter::flow interpreter::run_node(const set_block_statement& node) {
  enter(node.scope);
  flow after = flow::normal;
  value text = rt_.memory.keep(captured([&] { after = run_block(node.body); }));
  if (after != flow::normal) return after;
  if (node.filter) {
    const scoped_value<const value*> operand(block_text_, &text);
    text = eval(*node.filter);
  }
  require_namespaces(node.where);
  assign(node.where, text);
  leave(node.scope);
  return flow::normal;
}

interpreter::flow interpreter::run_node(const filter_statement& node) {
  enter(node.scope);
  flow after = flow::normal;
  const value text = rt_.memory.keep(captured([&] { after = run_block(node.body); }));
  if (after != flow::normal) return after;
  const scoped_value<const value*> operand(block_text_, &text);
  write_text_only(eval(*node.filter));
  leave(node.scope);
  return flow::normal;
}

interpreter::flow interpreter::run_node(const with_statement& node) {
  enter(node.scope);
  for (const auto& [where, assigned] : node.assignments) assign(where, eval(*assigned));
  const flow after = run_block(node.body);
  if (after == flow::normal) leave(node.scope);
  return after;
}

interpreter::flow interpreter::run_node(const macro_statement& node) {
  assign(node.where, make_macro(node.macro));
  return flow::normal;
}

interpreter::flow interpreter::run_node(const call_statement& node) {
  const value caller = make_macro(node.macro);
  write_text_only(eval_call(std::get<call_expression>(node.call->node), node.call->line, &caller));
  return flow::normal;
}

interpreter::flow interpreter::run_node(const generation_statement& node) {
  write_text_only(call_macro(make_macro(node.macro), {}));
  return flow::normal;
}

interpreter::flow interpreter::run_node(const block_statement& node) {
  if (node.required) fail("Required block '" + node.name + "' not found");
  dict_object* locals = nullptr;
  if (node.scoped) {
    locals = &rt_.memory.make<dict_object>();
    for (const auto& [name, where] : node.visible)
      if (const value& v = slot(where); !v.is_missing()) locals->set(rt_, value::of_text(name), v);
  }
  write(run_named_block(node, locals));
  return flow::normal;
}

std::string interpreter::run_named_block(const block_statement& node, const dict_object* locals) {
  if (call_depth_ >= rt_.limits.max_call_depth) fail_limit("blocks render each other too deeply");
  const scoped_value<int> deeper(call_depth_, call_depth_ + 1);
  const scoped_value<const dict_object*> visible(block_locals_, locals);
  return captured([&] {
    in_function(node.frame, nullptr, [&] {
      if (node.self_slot >= 0) {
        auto& self = rt_.memory.make<template_object>();
        self.renderer = this;
        here_->slots[static_cast<std::size_t>(node.self_slot)] =
            value::of_object(value_type::template_reference, &self);
      }
      enter(node.scope);
      (void)run_block(node.body);
    });
  });
}

const block_statement* interpreter::find_block(std::string_view name) const {
  const auto found = std::find_if(tree_.blocks.begin(), tree_.blocks.end(),
                                  [&](const block_statement* candidate) { return candidate->name == name; });
  return found == tree_.blocks.end() ? nullptr : *found;
}

value& interpreter::slot(const variable& where) {
  activation* at = here_;
  for (int i = 0; i < where.hops; ++i) at = at->outer;
  return at->slots[static_cast<std::size_t>(where.slot)];
}

value interpreter::resolve(std::string_view name) {
  for (const dict_object* scope : {block_locals_, static_cast<const dict_object*>(exported_), &variables_})
    if (scope != nullptr)
      if (const value* found = scope->find(rt_, name)) return *found;
  return find_global(rt_, name).value_or(value{});
}

void interpreter::enter(const scope_entry& scope) {
  for (const load& action : scope.loads) {
    value& destination = here_->slots[static_cast<std::size_t>(action.slot)];
    switch (action.action) {
    case load_action::resolve:
      destination = resolve(action.name);
      break;
    case load_action::alias:
      destination = slot(action.source);
      break;
    case load_action::undefined:
      destination = value{};
      break;
    }
  }
}

void interpreter::leave(const scope_entry& scope) {
  for (const int owned : scope.owned_slots) here_->slots[static_cast<std::size_t>(owned)] = value{};
}

void interpreter::require_namespaces(const target& where) {
  if (where.what == target::kind::namespace_attribute && !slot(where.where).is(value_type::name_space)) {
    line_ = where.line;
    fail("cannot assign attribute on non-namespace object");
  }
  for (const target& part : where.parts) require_namespaces(part);
}

void interpreter::assign(const target& where, const value& assigned) {
  switch (where.what) {
  case target::kind::name:
    slot(where.where) = assigned;
    if (where.exported) exported_->set(rt_, value::of_text(where.name), assigned);
    return;
  case target::kind::namespace_attribute:
    slot(where.where).as<namespace_object>().attributes->set(rt_, value::of_text(where.attribute), assigned);
    return;
  case target::kind::tuple:
    break;
  }
  line_ = where.line;
  const auto items = collect(rt_, assigned);
  if (items.size() != where.parts.size())
    fail("cannot unpack " + std::to_string(items.size()) + " values into " +
         std::to_string(where.parts.size()) + " names");
  for (std::size_t i = 0; i < items.size(); ++i) assign(where.parts[i], items[i]);
}

} // namespace paceline::tokenizer::jinja

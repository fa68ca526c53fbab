#include "runtime/tokenizer/chat_template/evaluation/blocks.hpp"
#include "runtime/tokenizer/chat_template/evaluation/interpreter.hpp"
#include "runtime/tokenizer/chat_template/python/binding.hpp"
#include "runtime/tokenizer/chat_template/python/printing.hpp"

#include <algorithm>

/// The interpreter's loops, macros and calls.
namespace paceline::tokenizer::jinja {

namespace {

/// All items of an iterable.
class plain_source final : public item_source {
 public:
  plain_source(runtime& rt, const value& iterable) : rt_(rt), walk_(rt, iterable) {}
  bool next(value& out) override { return walk_.next(rt_, out); }

 private:
  runtime& rt_;
  cursor walk_;
};

/// Disconnects the source when its loop ends, because `loop` may outlive it in a namespace.
class source_guard {
 public:
  explicit source_guard(loop_object& loop) : loop_(loop) {}
  source_guard(const source_guard&) = delete;
  source_guard& operator=(const source_guard&) = delete;
  ~source_guard() { loop_.source = nullptr; }

 private:
  loop_object& loop_;
};

value given_or(const call_arguments& arguments, std::string_view name, const value& fallback) {
  for (const auto& [key, v] : arguments.named)
    if (key == name) return v;
  return fallback;
}

} // namespace

/// The items that pass a loop's `if`. The condition is evaluated when an item is needed, so it sees the
/// effects of the body before.
class filtered_source final : public item_source {
 public:
  filtered_source(interpreter& owner, const for_statement& node, const value& iterable, activation* closure)
      : owner_(owner), node_(node), walk_(owner.rt_, iterable) {
    owner.rt_.memory.charge(static_cast<std::size_t>(node.test_frame.num_slots) * sizeof(value));
    frame_ = &owner.rt_.memory.make<activation>();
    frame_->slots.resize(static_cast<std::size_t>(node.test_frame.num_slots));
    frame_->outer = closure;
  }

  bool next(value& out) override {
    const scoped_value<activation*> entered(owner_.here_, frame_);
    if (!started_) owner_.enter(node_.test_scope);
    started_ = true;
    value item;
    while (walk_.next(owner_.rt_, item)) {
      owner_.assign(node_.test_target, item);
      if (!owner_.is_true(*node_.test)) continue;
      out = owner_.read(node_.test_target);
      return true;
    }
    return false;
  }

 private:
  interpreter& owner_;
  const for_statement& node_;
  cursor walk_;
  activation* frame_ = nullptr;
  bool started_ = false;
};

value interpreter::read(const target& where) {
  if (where.what != target::kind::tuple) return slot(where.where);
  std::vector<value> parts;
  for (const target& part : where.parts) parts.push_back(read(part));
  return rt_.memory.tuple(std::move(parts));
}

interpreter::flow interpreter::run_node(const for_statement& node) {
  const value iterable = eval(*node.iterable);
  line_ = node.iterable->line;
  if (node.recursive) {
    write_text_only(run_recursive_loop(node, iterable, here_, 0));
    return flow::normal;
  }
  return run_loop(node, iterable, here_, rt_.memory.make<loop_object>());
}

value interpreter::run_recursive_loop(const for_statement& node, const value& iterable, activation* closure,
                                      wide_int depth0) {
  if (call_depth_ >= rt_.limits.max_call_depth) fail_limit("a recursive loop calls itself too deeply");
  const scoped_value<int> deeper(call_depth_, call_depth_ + 1);
  auto& loop = rt_.memory.make<loop_object>();
  loop.recursive = &node;
  loop.closure = closure;
  loop.depth0 = depth0;
  return rt_.memory.keep(captured(
      [&] { in_function(node.frame, closure, [&] { (void)run_loop(node, iterable, closure, loop); }); }));
}

interpreter::flow interpreter::run_loop(const for_statement& node, const value& iterable,
                                        activation* test_closure, loop_object& loop) {
  std::optional<plain_source> plain;
  std::optional<filtered_source> filtered;
  if (node.test) {
    loop.source = &filtered.emplace(*this, node, iterable, test_closure);
  } else {
    loop.source = &plain.emplace(rt_, iterable);
    if (!iterable.is_string()) loop.length = length_of(rt_, iterable); // for text, counted when needed
  }
  const source_guard guard(loop);
  bool finished_one = false; // jinja2 runs the else part unless an iteration reached the end of the body
  while (loop.advance(rt_)) {
    assign(node.loop_target, loop.current);
    here_->slots[static_cast<std::size_t>(node.loop_slot)] = value::of_object(value_type::loop, &loop);
    enter(node.body_scope);
    const flow after = run_block(node.body);
    if (after == flow::break_loop) break;
    if (after == flow::normal) finished_one = true;
  }
  leave(node.body_scope);
  if (finished_one || node.otherwise.empty()) return flow::normal;
  enter(node.else_scope);
  const flow after = run_block(node.otherwise);
  if (after == flow::normal) leave(node.else_scope);
  return after;
}

std::string macro_object::describe(runtime& rt) {
  return body->name.empty() ? "<Macro anonymous>" : "<Macro " + repr(rt, value::of_text(body->name)) + ">";
}

std::optional<value> macro_object::attribute(runtime& rt, std::string_view name) {
  if (name == "name") return body->name.empty() ? value::none() : value::of_text(body->name);
  if (name == "catch_kwargs") return value::of(body->kwargs_slot >= 0);
  if (name == "catch_varargs") return value::of(body->varargs_slot >= 0);
  if (name == "caller") return value::of(body->caller_slot >= 0 || body->explicit_caller);
  if (name == "explicit_caller") return value::of(body->explicit_caller);
  if (name != "arguments") return std::nullopt;
  std::vector<value> names;
  for (const parameter& p : body->parameters) names.push_back(value::of_text(p.name));
  return rt.memory.tuple(std::move(names));
}

value interpreter::make_macro(const macro_body& body) {
  auto& made = rt_.memory.make<macro_object>();
  made.body = &body;
  made.closure = here_;
  return value::of_object(value_type::macro, &made);
}

value interpreter::call(const value& callee, const call_arguments& arguments) {
  require_defined(rt_, callee);
  switch (callee.type()) {
  case value_type::macro:
    return call_macro(callee, arguments);
  case value_type::function:
    return callee.as<function_object>().call(rt_, arguments);
  case value_type::method: {
    const auto& method = callee.as<method_object>();
    return method.call(rt_, method.self, arguments);
  }
  case value_type::loop: {
    const auto& loop = callee.as<loop_object>();
    const auto bound = bind("loop", arguments, {"iterable"}, 1);
    if (loop.recursive == nullptr)
      fail("The loop must have the 'recursive' marker to be called recursively.");
    return run_recursive_loop(*loop.recursive, bound[0], loop.closure, loop.depth0 + 1);
  }
  case value_type::joiner: {
    auto& joiner = callee.as<joiner_object>();
    (void)bind("joiner", arguments, {});
    return std::exchange(joiner.used, true) ? joiner.separator : value::of_text("");
  }
  case value_type::block:
    (void)bind("the block", arguments, {});
    return rt_.memory.keep(callee.as<block_object>().render());
  default:
    fail("'" + std::string(type_name(callee)) + "' object is not callable");
  }
}

/// Matches arguments in the order of jinja2's macros: by position, then by name, then `caller`. Remaining
/// arguments are accepted only if the body uses `kwargs` and `varargs`.
value interpreter::call_macro(const value& callee, const call_arguments& arguments) {
  const auto& macro = callee.as<macro_object>();
  const macro_body& body = *macro.body;
  if (call_depth_ >= rt_.limits.max_call_depth)
    fail_limit("the macro '" + body.name + "' is called too deeply");
  const scoped_value<int> deeper(call_depth_, call_depth_ + 1);
  const scoped_value<int> returns(line_, line_);
  const auto run = [&] {
    auto& slots = here_->slots;
    const auto set = [&](int slot, const value& v) { slots[static_cast<std::size_t>(slot)] = v; };
    std::vector<std::string_view> taken;
    for (std::size_t i = 0; i < body.parameters.size(); ++i) {
      const parameter& p = body.parameters[i];
      const bool by_position = i < arguments.positional.size();
      set(p.slot, by_position ? arguments.positional[i] : given_or(arguments, p.name, {}));
      if (!by_position) taken.push_back(p.name);
    }
    if (body.caller_slot >= 0) {
      const value caller = given_or(arguments, "caller", value::none());
      set(body.caller_slot, caller.is_none() ? rt_.memory.undefined("No caller defined") : caller);
      taken.push_back("caller");
    }
    dict_object* kwargs = nullptr;
    if (body.kwargs_slot >= 0) {
      kwargs = &rt_.memory.make<dict_object>();
      set(body.kwargs_slot, rt_.memory.dict(*kwargs));
    }
    for (const auto& [name, v] : arguments.named) {
      if (std::find(taken.begin(), taken.end(), name) != taken.end()) continue;
      if (kwargs == nullptr)
        fail("macro '" + body.name + "' takes no keyword argument '" + std::string(name) + "'");
      kwargs->set(rt_, value::of_text(name), v);
    }
    const std::size_t num_taken = std::min(body.parameters.size(), arguments.positional.size());
    const std::vector<value> rest(arguments.positional.begin() + static_cast<std::ptrdiff_t>(num_taken),
                                  arguments.positional.end());
    if (body.varargs_slot >= 0)
      set(body.varargs_slot, rt_.memory.tuple(rest));
    else if (!rest.empty())
      fail("macro '" + body.name + "' takes not more than " + std::to_string(body.parameters.size()) +
           " argument(s)");
    enter(body.scope);
    for (const parameter& p : body.parameters) {
      if (!slots[static_cast<std::size_t>(p.slot)].is_missing()) continue;
      const value fallback = p.fallback ? eval(*p.fallback)
                                        : rt_.memory.undefined("parameter '" + p.name + "' was not provided");
      set(p.slot, fallback);
    }
    (void)run_block(body.body);
  };
  return rt_.memory.keep(captured([&] { in_function(body.frame, macro.closure, run); }));
}

} // namespace paceline::tokenizer::jinja

#include "runtime/tokenizer/chat_template/syntax/name_collection.hpp"

#include "runtime/tokenizer/chat_template/syntax/tree_walk.hpp"

#include <span>

namespace paceline::tokenizer::jinja {

namespace {

void collect_stores(const target& where, scope_names& names) {
  switch (where.what) {
  case target::kind::name:
    names.store(where.name);
    break;
  case target::kind::namespace_attribute:
    names.load(where.name);
    break;
  case target::kind::tuple:
    for (const target& part : where.parts) collect_stores(part, names);
    break;
  }
}

using branch = std::pair<expression_ptr, block>;

void collect_if(std::span<const branch> branches, const block& otherwise, scope_names& names) {
  collect(*branches[0].first, names);
  scope_names body = names, elifs = names, last = names;
  collect(branches[0].second, body);
  for (std::size_t i = 1; i < branches.size(); ++i) collect_if(branches.subspan(i, 1), {}, elifs);
  collect(otherwise, last);
  names.merge_branches({&body, &elifs, &last});
}

void collect_statement(const statement& s, scope_names& names) {
  std::visit(overloaded{
                 [&](const output_statement& n) {
                   for (const auto& part : n.parts)
                     if (part.shown) collect(*part.shown, names);
                 },
                 [&](const for_statement& n) { collect(*n.iterable, names); },
                 [&](const if_statement& n) { collect_if(n.branches, n.otherwise, names); },
                 [&](const macro_statement& n) { names.store(n.macro.name); },
                 [&](const call_statement& n) { collect(*n.call, names); },
                 [&](const filter_statement& n) { collect(*n.filter, names); },
                 [&](const with_statement& n) {
                   for (const auto& [where, assigned] : n.assignments) collect(*assigned, names);
                 },
                 [&](const set_statement& n) {
                   collect(*n.assigned, names);
                   collect_stores(n.where, names);
                 },
                 [&](const set_block_statement& n) { collect_stores(n.where, names); },
                 [](const generation_statement&) {},
                 [](const block_statement&) {},
                 [](const break_statement&) {},
                 [](const continue_statement&) {},
             },
             s.node);
}

/// Searches the parts of a statement in jinja2's order: a declaration hides the names after it.
class undeclared_search {
 public:
  explicit undeclared_search(std::initializer_list<const char*> wanted)
      : wanted_(wanted.begin(), wanted.end()) {}

  std::set<std::string> take() && { return std::move(found_); }

  void visit(const block& body) {
    for (const auto& s : body) visit(*s);
  }

 private:
  void visit(const expression& e) {
    if (const auto* name = std::get_if<name_expression>(&e.node))
      if (wanted_.contains(name->name)) found_.insert(name->name);
    for_each_child(e, [&](const expression& child) { visit(child); });
  }

  void visit(const expression_ptr& e) {
    if (e) visit(*e);
  }

  void declare(const target& where) {
    if (where.what == target::kind::name) wanted_.erase(where.name);
    for (const target& part : where.parts) declare(part);
  }

  void visit(const macro_body& macro) {
    for (const parameter& p : macro.parameters) wanted_.erase(p.name);
    for (const parameter& p : macro.parameters) visit(p.fallback);
    visit(macro.body);
  }

  void visit(const statement& s) {
    std::visit(overloaded{
                   [&](const output_statement& n) {
                     for (const auto& part : n.parts) visit(part.shown);
                   },
                   [&](const for_statement& n) {
                     declare(n.loop_target);
                     visit(n.iterable), visit(n.body), visit(n.otherwise), visit(n.test);
                   },
                   [&](const if_statement& n) {
                     for (const auto& [test, body] : n.branches) visit(test), visit(body);
                     visit(n.otherwise);
                   },
                   [&](const macro_statement& n) { visit(n.macro); },
                   [&](const call_statement& n) { visit(n.call), visit(n.macro); },
                   [&](const generation_statement& n) { visit(n.macro); },
                   [&](const filter_statement& n) { visit(n.body), visit(n.filter); },
                   [&](const with_statement& n) {
                     for (const auto& [where, assigned] : n.assignments) declare(where);
                     for (const auto& [where, assigned] : n.assignments) visit(assigned);
                     visit(n.body);
                   },
                   [&](const set_statement& n) { declare(n.where), visit(n.assigned); },
                   [&](const set_block_statement& n) { declare(n.where), visit(n.filter), visit(n.body); },
                   [](const block_statement&) {},
                   [](const break_statement&) {},
                   [](const continue_statement&) {},
               },
               s.node);
  }

  std::set<std::string> wanted_, found_;
};

std::optional<int> assigns_loop(const target& where) {
  if (where.what == target::kind::name && where.name == "loop") return where.line;
  for (const target& part : where.parts)
    if (const auto line = assigns_loop(part)) return line;
  return std::nullopt;
}

std::optional<int> assigns_loop(const block& body) {
  std::optional<int> line;
  const auto look = [&](const auto& part) {
    if (!line) line = assigns_loop(part);
  };
  for (const auto& s : body) {
    std::visit(overloaded{
                   [](const auto&) {},
                   [&](const for_statement& n) { line = line ? line : assignment_to_loop(n); },
                   [&](const if_statement& n) {
                     for (const auto& [test, inner] : n.branches) look(inner);
                     look(n.otherwise);
                   },
                   [&](const macro_statement& n) { look(n.macro.body); },
                   [&](const call_statement& n) { look(n.macro.body); },
                   [&](const generation_statement& n) { look(n.macro.body); },
                   [&](const filter_statement& n) { look(n.body); },
                   [&](const with_statement& n) { look(n.body); },
                   [&](const set_statement& n) { look(n.where); },
                   [&](const set_block_statement& n) { look(n.where), look(n.body); },
                   [&](const block_statement& n) { look(n.body); },
               },
               s->node);
  }
  return line;
}

} // namespace

void collect(const expression& e, scope_names& names) {
  if (const auto* name = std::get_if<name_expression>(&e.node)) names.load(name->name);
  for_each_child(e, [&](const expression& child) { collect(child, names); });
}

void collect(const block& body, scope_names& names) {
  for (const auto& s : body) collect_statement(*s, names);
}

void collect_parameters(const target& where, scope_names& names) {
  if (where.what == target::kind::name) names.declare_parameter(where.name);
  for (const target& part : where.parts) collect_parameters(part, names);
}

std::set<std::string> undeclared_names(const block& body, std::initializer_list<const char*> wanted) {
  undeclared_search search(wanted);
  search.visit(body);
  return std::move(search).take();
}

std::optional<int> assignment_to_loop(const for_statement& node) {
  if (const auto line = assigns_loop(node.loop_target)) return line;
  if (const auto line = assigns_loop(node.body)) return line;
  return assigns_loop(node.otherwise);
}

} // namespace paceline::tokenizer::jinja

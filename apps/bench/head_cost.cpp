#include "apps/bench/head_cost.hpp"

#include "apps/bench/report.hpp"
#include "config/drafters.hpp"

#include <boost/json/object.hpp>

#include <cstdio>
#include <string>
#include <utility>

namespace paceline::apps::bench {

namespace json = boost::json;

namespace {

std::string shape_text(const lone_head& head) {
  const std::string levels = std::to_string(head.levels());
  const auto tree = head.drafts().options.tree;
  if (tree == config::tree_kind::chain || tree == config::tree_kind::by_kind) return "chain of " + levels;
  return "tree of " + std::to_string(head.nodes()) + " nodes, " + levels + " levels";
}

} // namespace

expected<head_costs> head_costs::open(const lone_model& target, const std::vector<std::string>& paths,
                                      const model::head_load_options& load, std::uint32_t context) {
  head_costs made;
  for (const std::string& path : paths) {
    auto heads = lone_head::open_all(target, path, load, context);
    if (!heads) return std::move(heads).error();
    for (auto& head : *heads) made.all_.push_back({std::move(head), {}, {}, {}, {}, {}});
  }
  return made;
}

expected<void> head_costs::measure(const lone_model& target, std::uint32_t context, std::uint32_t repeat) {
  for (measured& one : all_) {
    lone_head& head = *one.of;
    const auto count = [&](std::vector<double>& to, const auto& work) {
      const double seconds = target.timed(work).device;
      if (repeat > 0) to.push_back(seconds);
    };
    auto went = target.run([&](device::ops& ops) {
      if (repeat == 0) head.read_text(ops);
      count(one.plain, [&] { target.pass(ops, context, context + 1); });
      count(one.capturing, [&] { head.pass(ops, 1); });
      count(one.verifying, [&] { head.pass(ops, head.nodes() + 1); });
      head.forget(ops);
      count(one.one_level, [&] { head.draft(ops, 1); });
      head.forget(ops);
      count(one.all_levels, [&] { head.draft(ops, head.levels()); });
    });
    if (!went) return went;
  }
  return {};
}

json::array head_costs::to_json(const lone_model& target, double length) const {
  json::array out;
  for (const measured& one : all_) {
    const lone_head& head = *one.of;
    const double plain = summarise(one.plain).median, draft = summarise(one.all_levels).median;
    const double verify = summarise(one.verifying).median, first = summarise(one.one_level).median;
    const auto traits = head.head().traits();
    const double step = traits.is_parallel || head.levels() == 1 ? draft
                        : traits.adds_to_levels()                ? draft / head.levels()
                                                                 : (draft - first) / (head.levels() - 1);
    const auto bytes = static_cast<double>(head.head().info().bytes_per_token);
    const double accepted = length > 0 ? length : head.drafts().acceptance_length;
    json::object o{
        {"path", head.path()},
        {"kind", head.drafts().options.kind},
        {"shape", shape_text(head)},
        {"levels", head.levels()},
        {"nodes", head.nodes()},
        {"bytes_per_step", head.head().info().bytes_per_token},
        {"share_of_plain_bytes", bytes / static_cast<double>(target.info().bytes_per_token)},
        {"plain", bench::to_json(summarise(one.plain))},
        {"capturing", bench::to_json(summarise(one.capturing))},
        {"capture_cost", summarise(one.capturing).median / plain - 1},
        {"verifying", bench::to_json(summarise(one.verifying))},
        {"draft", bench::to_json(summarise(one.all_levels))},
        {"seconds_per_step", step},
        {"step_of_share", step / plain * static_cast<double>(target.info().bytes_per_token) / bytes}};
    if (accepted > 0) {
      o["acceptance_length"] = accepted;
      o["acceptance_source"] = length > 0 ? "--acceptance-length" : head.drafts().source;
      o["speedup"] = accepted * plain / (verify + draft);
    }
    out.push_back(std::move(o));
  }
  return out;
}

void print_heads(const json::array& heads) {
  if (heads.empty()) return;
  table t({"head", "drafts", "MB a step", "of a pass's", "step ms", "of its share", "draft ms", "capture",
           "verify ms", "tokens a round", "speed-up"});
  const auto ms = [](const json::value& v) { return fixed(v.at("median").as_double() * 1e3, 3); };
  for (const auto& h : heads) {
    const auto& o = h.as_object();
    const bool known = o.contains("speedup");
    t.add({std::string(o.at("kind").as_string()), std::string(o.at("shape").as_string()),
           fixed(o.at("bytes_per_step").to_number<double>() / 1e6, 1),
           fixed(o.at("share_of_plain_bytes").as_double() * 100, 1) + " %",
           fixed(o.at("seconds_per_step").as_double() * 1e3, 3), fixed(o.at("step_of_share").as_double(), 2),
           ms(o.at("draft")), fixed(o.at("capture_cost").as_double() * 100, 1) + " %", ms(o.at("verifying")),
           known ? fixed(o.at("acceptance_length").as_double(), 2) : "?",
           known ? fixed(o.at("speedup").as_double(), 2) : "?"});
  }
  std::printf("\n");
  t.print();
  for (const auto& h : heads)
    if (const auto* source = h.as_object().if_contains("acceptance_source"))
      std::printf("%s: %s\n", h.at("shape").as_string().c_str(), source->as_string().c_str());
}

} // namespace paceline::apps::bench

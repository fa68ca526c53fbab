#include "protocol/wire/output/output_pipeline.hpp"

#include <utility>

namespace paceline::wire {

output_pipeline::output_pipeline(const output_plan& plan, std::function<std::string()> make_id)
    : drops_reasoning_(plan.drops_reasoning) {
  if (plan.in_harmony) {
    harmony_.emplace(plan, call_writer(plan.max_calls, std::move(make_id)));
    return;
  }
  if (plan.reasoning) reasoning_.emplace(plan.reasoning, plan.begins_inside_reasoning);
  if (plan.calls != call_syntax::none)
    calls_.emplace(plan.calls, plan.tools, call_writer(plan.max_calls, std::move(make_id)));
}

output_items output_pipeline::feed(std::string text) {
  output_items out;
  if (harmony_) {
    harmony_->feed(text, out);
    return out;
  }
  if (!reasoning_) {
    answer(std::move(text), out);
    return out;
  }
  add(reasoning_->feed(text), out);
  return out;
}

output_items output_pipeline::finish(bool is_cut) {
  output_items out;
  if (reasoning_) add(reasoning_->finish(), out);
  if (calls_) calls_->finish(is_cut, out);
  if (harmony_) harmony_->finish(is_cut, out);
  return out;
}

void output_pipeline::add(reasoning_split::parts parts, output_items& out) {
  if (!drops_reasoning_) append(out, output_item::kind::reasoning, parts.reasoning);
  answer(std::move(parts.answer), out);
}

void output_pipeline::answer(std::string text, output_items& out) {
  if (text.empty()) return;
  if (calls_)
    calls_->feed(text, out);
  else
    out.push_back({output_item::kind::text, std::move(text), 0, {}});
}

} // namespace paceline::wire

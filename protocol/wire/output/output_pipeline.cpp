#include "protocol/wire/output/output_pipeline.hpp"

#include <algorithm>
#include <utility>

namespace paceline::wire {

output_pipeline::output_pipeline(const output_plan& plan, std::function<std::string()> make_id)
    : drops_reasoning_(plan.drops_reasoning), keeps_reasoning_(plan.keeps_reasoning_in_text) {
  if (plan.in_harmony) {
    harmony_.emplace(plan, call_writer(plan.max_calls, std::move(make_id)));
    return;
  }
  if (plan.reasoning) reasoning_.emplace(plan);
  if (plan.calls != call_syntax::none)
    calls_.emplace(plan.calls, plan.tools, call_writer(plan.max_calls, std::move(make_id)));
}

output_items output_pipeline::feed(std::string text) {
  output_items out;
  num_fed_ += text.size();
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
  if (reasoning_) {
    auto calls = is_cut ? output_items() : take_calls_of_thoughts(); // a cut output may still be thinking
    add(reasoning_->finish(), out);
    for (auto& item : calls) append(out, std::move(item));
  }
  if (calls_) calls_->finish(is_cut, out);
  if (harmony_) harmony_->finish(is_cut, out);
  return out;
}

/// Qwen 3.5 may forget to end its thoughts before a call. Removes the calls from the thoughts in which the
/// output has ended, with all that follows the first of them.
output_items output_pipeline::take_calls_of_thoughts() {
  output_items found;
  if (!calls_ || reasoning_->possible_call().empty()) return found;
  // In pieces: with all of the text held at once, each mark that begins no call would be searched for to its
  // end.
  constexpr std::size_t piece_bytes = 256;
  for (std::string_view rest = reasoning_->possible_call(); !rest.empty();
       rest.remove_prefix(std::min(piece_bytes, rest.size())))
    calls_->feed(rest.substr(0, piece_bytes), found);
  calls_->finish(false, found);
  const auto first = std::ranges::find(found, output_item::kind::call_begin, &output_item::what);
  if (first == found.end()) return {};
  std::string thoughts;
  for (auto item = found.begin(); item != first; ++item) thoughts += item->text;
  reasoning_->take_calls(std::move(thoughts));
  found.erase(found.begin(), first);
  return found;
}

byte_owner output_pipeline::owner_of(std::size_t at) const noexcept {
  if (harmony_) return harmony_->owner_of(at);
  if (at < reasoning_bytes()) return byte_owner::other;
  if (may_reason()) return byte_owner::undecided;
  if (!calls_) return byte_owner::answer;
  const auto before = num_fed_ - calls_->num_fed(); // thoughts that stay in the text, and dropped blanks
  return at < before ? byte_owner::answer : calls_->owner_of(at - before);
}

void output_pipeline::add(reasoning_split::parts parts, output_items& out) {
  const auto what = keeps_reasoning_ ? output_item::kind::text : output_item::kind::reasoning;
  if (!drops_reasoning_) append(out, what, parts.reasoning);
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

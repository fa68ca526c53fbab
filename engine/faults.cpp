#include "engine/faults.hpp"

#include "engine/model_unit.hpp"

namespace paceline {

std::vector<engine_fault> faults_of(const actors::fault_book& book,
                                    const std::vector<std::unique_ptr<model_unit>>& models) {
  std::vector<engine_fault> out;
  for (const auto& [which, entry] : book.all()) {
    auto& fault = out.emplace_back();
    fault.part = to_string(which);
    fault.reason = entry.last.message();
    fault.num = entry.num;
    fault.is_lost = entry.is_lost;
    if (!which.serves_one_model()) continue;
    const auto& unit = *models[which.model.value];
    fault.model = unit.options.name;
    if (which.kind == actors::part_kind::draft_worker || which.kind == actors::part_kind::drafter)
      fault.drafter = unit.drafters[which.drafter.value].options.name;
  }
  return out;
}

void add_faults(engine_snapshot& to, const std::vector<engine_fault>& faults) {
  for (const auto& fault : faults) {
    for (auto& actor : to.actors) actor.is_lost |= fault.is_lost && actor.name == fault.part;
    for (auto& model : to.models)
      for (auto& drafter : model.drafters)
        if (model.name == fault.model && drafter.name == fault.drafter && !fault.is_lost)
          drafter.last_failure = fault.reason;
  }
}

} // namespace paceline

#pragma once

#include "actors/fault_book.hpp"
#include "engine/snapshot.hpp"

#include <memory>
#include <vector>

namespace paceline {

struct model_unit;

/// The entries of `book`, with the names of models and drafters in place of their numbers.
std::vector<engine_fault> faults_of(const actors::fault_book& book,
                                    const std::vector<std::unique_ptr<model_unit>>& models);

/// Marks the lost actors in `to`, and adds the last failure of each drafter.
void add_faults(engine_snapshot& to, const std::vector<engine_fault>& faults);

} // namespace paceline

#pragma once

#include "runtime/model/hash_model.hpp"
#include "runtime/speculation/drafters/registry.hpp"

#include <string>

namespace paceline::test {

/// What drafters with a model are made from for a hash model as target, by words in `name`: kind "self"
/// (three of four layers), "cascade", else "model"; "other": another model than the target's; "foreign":
/// another vocabulary, by intersection or ("text") tokenised anew; "greedy"; tree "static", "dynamic" or
/// "optimal" of 12 nodes.
speculation::drafter_parts model_drafter_parts(const std::string& name, model::hash_model_config target);

} // namespace paceline::test

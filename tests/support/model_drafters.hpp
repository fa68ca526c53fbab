#pragma once

#include "runtime/model/hash_model.hpp"
#include "runtime/speculation/drafters/registry.hpp"

#include <string>

namespace paceline::test {

/// Parts of drafters with a model for a hash model as target, by words in `name`: kind "self" (three of four
/// layers), "cascade", "head" (a hash_head; "path" and "parallel" are its shapes; with "block" a
/// hash_block_head as DFlash, with "masks" one as P-EAGLE), "pass", "ppd" (with three look-ahead rows), else
/// "model"; "other": another model than the target's, or rows that are never right; "foreign": another
/// vocabulary, by intersection or ("text") by re-tokenizing; "greedy"; tree "chain", "static", "dynamic" or
/// "optimal" with 12 nodes, or "chain".
speculation::drafter_parts model_drafter_parts(const std::string& name, model::hash_model_config target);

} // namespace paceline::test

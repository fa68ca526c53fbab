#pragma once

#include "tests/support/gguf_builder.hpp"
#include "tests/support/tiny_model.hpp"

#include <string>

namespace paceline::test {

// What the files of single families contain in addition to what all files contain. Factors are neither 0 nor
// 1.

/// Keys, and tensors that belong to no layer.
void set_family_keys(gguf_builder& file, const tiny_model& options);

/// The same as members of a config.json, each with a comma in front.
std::string family_members(const tiny_model& options);

/// The "model_type" of a config.json.
std::string family_model_type(model::architecture arch);

} // namespace paceline::test

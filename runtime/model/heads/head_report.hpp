#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/model/heads/draft_head.hpp"
#include "runtime/model/heads/lookahead_inputs.hpp"
#include "runtime/model/loader/model_report.hpp"

#include <filesystem>
#include <memory>
#include <string>

namespace paceline::model {

/// Reads the files of a draft head, without a target: its kind, and in `head.facts` sizes, the fields in
/// which dialects differ, tapped layers, levels and the vocabulary map. Errors: as of `kind_of_head`; a
/// config that cannot be read is the report's problem.
expected<model_report> inspect_head(const std::filesystem::path& path);

/// Adds whether the head fits a target: what `load_draft_head` gave for it, or `load_lookahead_inputs`.
void add_fit(model_report& report, const std::string& target,
             const expected<std::shared_ptr<const draft_head>>& loaded);
void add_fit(model_report& report, const std::string& target, const expected<lookahead_inputs>& loaded);

} // namespace paceline::model

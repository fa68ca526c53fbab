#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/model/heads/draft_head.hpp"
#include "runtime/model/heads/lookahead_inputs.hpp"
#include "runtime/model/loader/report/model_report.hpp"

#include <filesystem>
#include <memory>
#include <string>

namespace paceline::model {

/// Reads the files of a draft head without a target. `head.kind` has the head's kind. `head.facts` has sizes,
/// the fields in which layouts differ, tapped layers, levels and the vocabulary map. Errors: those of
/// `kind_of_head` and `inspect_files`. A config that cannot be read is no error: `problem` has the reason.
expected<model_report> inspect_head(const std::filesystem::path& path);

/// Adds to the report whether the head fits a target. `target`: the target's name in the report. `loaded`:
/// the result of loading the head for it (`load_draft_head`, or `load_lookahead_inputs`); an error becomes
/// `problem`.
void add_fit(model_report& report, const std::string& target,
             const expected<std::shared_ptr<const draft_head>>& loaded);
void add_fit(model_report& report, const std::string& target, const expected<lookahead_inputs>& loaded);

} // namespace paceline::model

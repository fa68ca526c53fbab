#pragma once

#include "config/load.hpp"
#include "engine/engine.hpp"
#include "server/event_log.hpp"

namespace paceline::apps {

/// Writes what is known before the models are loaded into the log: warnings, and the drafters of each model
/// with the reason for them.
void tell_configuration(server::event_log& log, const config::load_result& loaded);

/// The same for what only the loaded models tell: contexts that were configured too long, parts of files
/// that are not used, how many levels each drafter drafts, and what passes cost, which says why drafting pays
/// here or does not.
void tell_models(server::event_log& log, const config::engine_options& options, const engine& runtime);

} // namespace paceline::apps

#pragma once

#include "config/load.hpp"
#include "engine/engine.hpp"
#include "server/event_log.hpp"

namespace paceline::apps {

/// Logs what is known before the models are loaded: warnings, and each model's drafters with the reason why
/// it has them.
void tell_configuration(server::event_log& log, const config::load_result& loaded);

/// Logs what is known only after the models are loaded: contexts that were configured longer than the model's
/// own, parts of files that are not used, the draft length of each drafter, and the times of passes, which
/// determine whether drafting pays.
void tell_models(server::event_log& log, const config::engine_options& options, const engine& runtime);

} // namespace paceline::apps

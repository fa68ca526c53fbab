#pragma once

#include "apps/commands/options.hpp"
#include "engine/engine.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/base/token_event.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace paceline::apps {

/// An engine for one model, in this process. Progress of loading goes to standard error.
expected<std::unique_ptr<engine>> start_local(const model_choice& choice, bool quiet);

/// What a finished generation gave.
struct generated {
  std::vector<token_id> tokens;
  std::string text;
  token_event last;
};

/// Submits `request` and waits for its end; `on_text` gets the text as it comes, on this thread.
generated generate(engine& runtime, generation_request request, const std::function<void(const std::string&)>& on_text);

std::string_view name_of(finish_reason reason);

} // namespace paceline::apps

#pragma once

#include "apps/commands/options.hpp"
#include "engine/engine.hpp"
#include "engine/served_model.hpp"
#include "runtime/base/expected.hpp"
#include "runtime/base/token_event.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::apps {

/// The drafter of requests that name none: the one that --drafter names. Without --drafter it is the head's
/// kind if --draft-head is given, `model` if --draft-model is given, and otherwise `auto`. Error if both
/// --draft-head and --draft-model are given.
expected<std::string> default_drafter(const model_choice& choice);

/// An engine for one model in this process. Reports the progress of loading on standard error.
expected<std::unique_ptr<engine>> start_local(const model_choice& choice, bool quiet);

/// The result of a generation.
struct generated {
  std::vector<token_id> tokens;
  std::string text;
  std::vector<std::chrono::steady_clock::time_point> arrivals; ///< times at which events with tokens arrived
  token_event last;
};

/// A message of a conversation.
boost::json::object chat_turn(std::string_view role, std::string_view content);
/// The messages of a conversation: the system prompt, if there is one, then `earlier`, then the user's
/// `message`.
boost::json::array conversation(const std::optional<std::string>& system, const boost::json::array& earlier,
                                const std::string& message);

/// A conversation's tokens, from the model's chat template.
expected<std::vector<token_id>> chat_prompt(const served_model& model, const boost::json::array& messages);

/// Submits `request` and waits for its end. `on_event` receives the events as they arrive, on this thread.
/// `wants_end` is asked at least 20 times a second. Once it returns true, the request is cancelled and later
/// events are not passed on.
generated generate(engine& runtime, generation_request request,
                   const std::function<void(const token_event&)>& on_event,
                   const std::function<bool()>& wants_end = {});

std::string_view name_of(finish_reason reason);

} // namespace paceline::apps

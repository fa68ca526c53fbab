#include "apps/commands/local_engine.hpp"

#include "config/drafters.hpp"
#include "runtime/model/heads/files/head_kind.hpp"
#include "runtime/tokenizer/chat_template/chat_template.hpp"
#include "runtime/tokenizer/chat_template/request_variables.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <unistd.h>

namespace paceline::apps {

namespace {

/// The drafter that --draft-model or --draft-head brings; empty if neither is given.
expected<std::string> brought_drafter(const model_choice& choice) {
  if (!choice.draft_head.empty() && !choice.draft_model.empty())
    return error{errc::invalid_argument, "--draft-model and --draft-head: one of them drafts"};
  if (!choice.draft_head.empty()) return model::kind_of_head(choice.draft_head);
  return std::string(choice.draft_model.empty() ? "" : "model");
}

std::string default_among(const model_choice& choice, const std::string& brought) {
  return choice.drafter ? *choice.drafter : brought.empty() ? "auto" : brought;
}

/// The drafters to configure, each named after its kind: those that requests can name, and from which "auto"
/// chooses. `further`: kinds to add to those that every model has.
std::vector<config::drafter_options> drafters_for(const model_choice& choice,
                                                  const std::vector<std::string>& further) {
  auto all = config::drafters_of({});
  for (const auto& kind : further) {
    if (kind.empty() || kind == "auto" || kind == "none") continue;
    if (kind == "model" && choice.draft_model.empty()) continue;
    if (std::ranges::find(all, kind, &config::drafter_options::name) != all.end()) continue;
    all.emplace_back();
    all.back().name = all.back().kind = kind;
  }
  for (auto& made : all) {
    if (made.kind == "model" || made.kind == "cascade")
      made.path = choice.draft_model, made.device = choice.draft_device;
    if (config::drafts_with_head(made.kind)) made.path = choice.draft_head;
    made.partition = choice.partitions - 1;
    if (choice.draft_length) made.draft_length = *choice.draft_length;
  }
  return all;
}

/// `brought`: the drafter that --draft-model or --draft-head brings, or empty.
config::engine_options options_for(const model_choice& choice, const std::string& brought) {
  config::engine_options options;
  config::model_options model;
  model.name = "default";
  model.context_length = choice.context_length;
  model.kv_dtype = choice.kv_dtype;
  model.chat_template = choice.chat_template;
  model.device = choice.device;
  model.max_running = choice.max_running;
  if (choice.model == "hash")
    model.kind = "hash";
  else
    model.path = choice.model;
  model.default_drafter = default_among(choice, brought);
  auto further = choice.further_drafters;
  further.insert(further.end(), {brought, model.default_drafter});
  model.drafters = drafters_for(choice, further);
  options.models.push_back(std::move(model));
  options.threads = choice.threads;
  options.partitions = choice.partitions;
  return options;
}

void show_progress(const load_progress& p) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  if (!terminal && p.done != p.total) return; // a log gets one line for each stage
  std::fprintf(stderr, "%sloading %s: %3.0f %%%s", terminal ? "\r" : "", p.stage.c_str(),
               p.total == 0 ? 100.0 : 100.0 * static_cast<double>(p.done) / static_cast<double>(p.total),
               p.done == p.total ? "\n" : "");
}

} // namespace

expected<std::string> default_drafter(const model_choice& choice) {
  const auto brought = brought_drafter(choice);
  if (!brought) return brought.error();
  return default_among(choice, *brought);
}

expected<std::unique_ptr<engine>> start_local(const model_choice& choice, bool quiet) {
  auto brought = brought_drafter(choice);
  if (!brought) return std::move(brought).error();
  auto options = options_for(choice, *brought);
  auto started = quiet ? engine::start(std::move(options)) : engine::start(std::move(options), show_progress);
  if (!started) return started;
  if (const auto own = (*started)->model("")->context_length(); own < choice.context_length)
    std::fprintf(stderr, "paceline: --ctx-size %u is above the model's own %u, which is used\n",
                 choice.context_length, own);
  return started;
}

generated generate(engine& runtime, generation_request request,
                   const std::function<void(const token_event&)>& on_event,
                   const std::function<bool()>& wants_end) {
  constexpr std::chrono::milliseconds poll{50}; // a signal's handler cannot wake a waiting thread
  struct shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<token_event> events;
  };
  auto inbox = std::make_shared<shared>();
  const auto id = runtime.submit(std::move(request), [inbox](const token_event& event) {
    {
      std::lock_guard lock(inbox->mutex);
      inbox->events.push_back(event);
    }
    inbox->changed.notify_one();
  });
  const auto has_event = [&] { return !inbox->events.empty(); };
  generated out;
  bool is_cancelled = false;
  while (out.last.finish == finish_reason::none) {
    if (wants_end && !is_cancelled && wants_end()) {
      is_cancelled = true;
      runtime.cancel(id); // ignored if it has just ended
    }
    std::unique_lock lock(inbox->mutex);
    if (!wants_end)
      inbox->changed.wait(lock, has_event);
    else if (!inbox->changed.wait_for(lock, poll, has_event))
      continue;
    auto event = std::move(inbox->events.front());
    inbox->events.pop_front();
    lock.unlock();
    if (is_cancelled) {
      out.last = std::move(event);
      continue;
    }
    if (!event.tokens.empty()) out.arrivals.push_back(std::chrono::steady_clock::now());
    out.tokens.insert(out.tokens.end(), event.tokens.begin(), event.tokens.end());
    out.text += event.text;
    if (on_event) on_event(event);
    out.last = std::move(event);
  }
  return out;
}

boost::json::object chat_turn(std::string_view role, std::string_view content) {
  return {{"role", role}, {"content", content}};
}

boost::json::array conversation(const std::optional<std::string>& system, const boost::json::array& earlier,
                                const std::string& message) {
  boost::json::array all;
  if (system) all.push_back(chat_turn("system", *system));
  all.insert(all.end(), earlier.begin(), earlier.end());
  all.push_back(chat_turn("user", message));
  return all;
}

expected<std::vector<token_id>> chat_prompt(const served_model& model, const boost::json::array& messages) {
  if (!model.chat()) return error{errc::unsupported, "the model has no chat template"};
  tokenizer::chat_request request;
  request.messages = messages;
  const auto& v = model.vocabulary();
  tokenizer::special_spellings spellings;
  if (v.bos()) spellings.bos = std::string(v.spelling(*v.bos()));
  if (v.eos()) spellings.eos = std::string(v.spelling(*v.eos()));
  const auto variables = tokenizer::request_variables(request, spellings);
  if (!variables) return variables.error();
  auto text = model.chat()->render(*variables);
  if (!text) return std::move(text).error();
  return v.encode(*text, {.add_special = false, .parse_special = true}); // the template writes BOS itself
}

std::string_view name_of(finish_reason reason) {
  switch (reason) {
  case finish_reason::none:
    return "none";
  case finish_reason::stop:
    return "stop";
  case finish_reason::length:
    return "length";
  case finish_reason::cancelled:
    return "cancelled";
  case finish_reason::error:
    return "error";
  }
  return "none";
}

} // namespace paceline::apps

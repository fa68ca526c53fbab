#pragma once

#include "config/engine_options.hpp"
#include "engine/engine.hpp"
#include "tests/support/made_requests.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace paceline::testing {

/// The result of one request, collected from its events. Thread-safe while events arrive; `wait` blocks until
/// the request has ended.
class generation {
 public:
  event_sink sink() {
    return [state = state_](const token_event& event) {
      std::lock_guard lock(state->mutex);
      if (event.first_index != state->tokens.size() && !event.tokens.empty()) state->gap = true;
      state->tokens.insert(state->tokens.end(), event.tokens.begin(), event.tokens.end());
      state->text += event.text;
      state->logprobs.insert(state->logprobs.end(), event.logprobs.begin(), event.logprobs.end());
      state->prompt_logprobs.insert(state->prompt_logprobs.end(), event.prompt_logprobs.begin(),
                                    event.prompt_logprobs.end());
      if (event.finish != finish_reason::none) {
        state->last = event;
        state->done = true;
      }
      state->changed.notify_all();
    };
  }

  void wait() const {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [this] { return state_->done; });
  }
  void wait_for_tokens(std::size_t num) const {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->done || state_->tokens.size() >= num; });
  }

  bool is_done() const { return locked(state_->done); }
  std::vector<token_id> tokens() const { return locked(state_->tokens); }
  std::string text() const { return locked(state_->text); }
  std::vector<token_logprob> logprobs() const { return locked(state_->logprobs); }
  std::vector<token_logprob> prompt_logprobs() const { return locked(state_->prompt_logprobs); }
  token_event last() const { return locked(state_->last); }
  bool has_gap() const { return locked(state_->gap); }

 private:
  struct state {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<token_id> tokens;
    std::string text;
    std::vector<token_logprob> logprobs, prompt_logprobs;
    token_event last;
    bool done = false;
    bool gap = false;
  };
  template <class T>
  T locked(const T& value) const {
    std::lock_guard lock(state_->mutex);
    return value;
  }

  std::shared_ptr<state> state_ = std::make_shared<state>();
};

/// An engine with the hash model on one thread.
inline config::engine_options hash_engine() {
  config::engine_options options;
  config::model_options model;
  model.name = "hash";
  model.kind = "hash";
  model.context_length = 512;
  options.models.push_back(model);
  options.threads = 1;
  return options;
}

} // namespace paceline::testing

#include "apps/chat/chat_input.hpp"
#include "apps/chat/history_file.hpp"
#include "apps/chat/line_reader.hpp"
#include "apps/chat/race.hpp"
#include "apps/commands/local_engine.hpp"
#include "apps/commands/run_request.hpp"
#include "apps/commands/token_painter.hpp"
#include "apps/exit_codes.hpp"
#include "apps/interrupt_watch.hpp"
#include "runtime/base/joined.hpp"

#include "engine/served_model.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <variant>

namespace paceline::apps {

namespace json = boost::json;

namespace {

constexpr std::string_view more_room = "/new, or a larger --ctx-size";

/// Messages to the user go to standard error; standard output has only the replies.
void tell(const std::string& text) { std::fputs(text.c_str(), stderr); }

/// A conversation: reads messages and commands until the input ends.
class chat_session {
 public:
  chat_session(engine& runtime, const chat_options& options)
      : runtime_(runtime), model_(*runtime.model("")), options_(options),
        reader_(make_line_reader(options.keeps_history ? history_file() : std::filesystem::path(), watch_)) {
    if (auto chosen = default_drafter(options_.choice)) drafter_ = *std::move(chosen);
  }

  int run() {
    tell("Write a message, or /help. Ctrl-D ends the conversation, Ctrl-C a reply.\n");
    for (std::string line;;) {
      watch_.reset(); // an interrupt that came after the end of the last reply
      const auto came = reader_->read(lines_.is_open() ? "... " : "> ", line);
      if (came == line_outcome::end) return finish();
      if (came == line_outcome::interrupted) {
        if (!lines_.is_open()) tell("Ctrl-D or /bye ends the conversation.\n");
        lines_.reset();
        continue;
      }
      auto message = lines_.add(line);
      if (!message) continue;
      if (const auto code = handle(*std::move(message))) return *code;
    }
  }

 private:
  /// Handles the end of the input; returns the exit code. A person who ends it drops an incomplete message,
  /// but the message of a script must not be lost.
  int finish() {
    if (!lines_.is_open() || isatty(STDIN_FILENO) != 0) return exit_success;
    if (!lines_.is_quoted()) return handle(lines_.finish()).value_or(exit_success);
    tell("paceline: the message has no closing \"\"\"\n");
    return exit_usage;
  }

  /// Returns the exit code if the message ends the chat.
  std::optional<int> handle(std::string message) {
    if (message.find_first_not_of(" \t\n") == std::string::npos) return std::nullopt;
    reader_->remember(message);
    return obey(read_message(std::move(message)));
  }

  /// Returns the exit code if the command ends the chat.
  std::optional<int> obey(std::variant<std::string, chat_order, unknown_order> wanted) {
    if (const auto* message = std::get_if<std::string>(&wanted)) return answer(*message);
    if (const auto* unknown = std::get_if<unknown_order>(&wanted)) {
      tell("There is no command /" + unknown->word +
           (unknown->nearest.empty() ? "; /help lists them" : "; did you mean /" + unknown->nearest + "?") +
           "\n");
      return std::nullopt;
    }
    const auto& order = std::get<chat_order>(wanted);
    switch (order.what) {
    case chat_command::help:
      tell(std::string(chat_help()));
      break;
    case chat_command::fresh:
      messages_.clear();
      tell("A new conversation.\n");
      break;
    case chat_command::system:
      options_.system = order.argument.empty() ? std::nullopt : std::optional(order.argument);
      tell(options_.system ? "The system prompt is set.\n" : "There is no system prompt.\n");
      break;
    case chat_command::drafter:
      choose(order.argument);
      break;
    case chat_command::race:
      return race(order.argument);
    case chat_command::trace:
      options_.trace = !options_.trace;
      tell(options_.trace ? legend() : "Tokens are not coloured.\n");
      break;
    case chat_command::bye:
      return exit_success;
    }
    return std::nullopt;
  }

  void choose(const std::string& name) {
    const auto& known = model_.drafters();
    if (std::ranges::find(known, name) != known.end()) {
      drafter_ = name;
      return tell("Drafter: " + name + "\n");
    }
    tell((name.empty() ? "" : "There is no drafter " + name + ". ") + "Drafters: " + joined(known, ", ") +
         ". Now: " + drafter_ + ". --drafter, --draft-model and --draft-head load others.\n");
  }

  std::string legend() const {
    std::string out = "Tokens:";
    for (const auto origin :
         {token_origin::plain, token_origin::accepted, token_origin::recovered, token_origin::bonus})
      out += " " + painted(origin, style_of(origin).name, wants_colour());
    return out + "\n";
  }

  /// The tokens of the conversation with `message` at its end.
  expected<std::vector<token_id>> prompt_with(const std::string& message) const {
    return chat_prompt(model_, conversation(options_.system, messages_, message));
  }

  /// Generates with `drafter` and shows the text. With its own `memory`, the run does not reuse what other
  /// runs read and wrote.
  expected<generated> reply(std::vector<token_id> prompt, const std::string& drafter,
                            const std::string& memory = {}) {
    auto request = make_request(options_, std::move(prompt), model_.context_length(), more_room);
    if (!request) return std::move(request).error();
    request->speculation.drafter = drafter;
    request->cache_salt = memory;
    request->tenant = memory;
    request->trace = options_.trace;
    token_painter painter(model_.vocabulary(), painting_for_output(options_.trace));
    auto made = generate(
        runtime_, *std::move(request), [&](const token_event& event) { print_now(painter.show(event)); },
        [&] { return watch_.interrupted(); });
    print_now("\n");
    if (made.last.finish == finish_reason::error)
      return made.last.failure.value_or(error{errc::internal, ""});
    return made;
  }

  /// Handles a failure: a person may continue, but a script must learn of it.
  std::optional<int> fail_turn(const error& why) {
    const int code = fail(why);
    return isatty(STDIN_FILENO) != 0 ? std::nullopt : std::optional(code);
  }

  std::optional<int> answer(const std::string& message) {
    auto prompt = prompt_with(message);
    if (!prompt) return fail_turn(prompt.error());
    auto made = reply(*std::move(prompt), drafter_);
    if (!made) return fail_turn(made.error());
    messages_.push_back(chat_turn("user", message));
    messages_.push_back(chat_turn("assistant", made->text));
    if (made->last.finish == finish_reason::length)
      tell(cut_notice(made->tokens.size(), options_.max_tokens, more_room));
    if (options_.trace) tell(figures(*made));
    return std::nullopt;
  }

  /// Rounds, tokens and acceptance of one reply.
  static std::string figures(const generated& made) {
    if (!made.last.speculation || !made.last.timings) return {}; // the reply was interrupted
    const auto& s = *made.last.speculation;
    const double seconds = std::chrono::duration<double>(made.last.timings->decode).count();
    char text[160];
    std::snprintf(text, sizeof text, "[%zu tokens, %.1f tokens/s; %u drafted, %.0f %% of them accepted]\n",
                  made.tokens.size(),
                  seconds > 0 ? static_cast<double>(made.tokens.size() - 1) / seconds : 0.0,
                  s.num_draft_tokens,
                  s.num_draft_tokens == 0 ? 0.0 : 100.0 * s.num_accepted_tokens / s.num_draft_tokens);
    return text;
  }

  /// Answers `given`, or the last message, twice. The conversation does not change.
  std::optional<int> race(const std::string& given) {
    std::string message = given;
    json::array kept = messages_;
    if (message.empty()) {
      if (messages_.size() < 2) return tell("Race with which message? /race MESSAGE\n"), std::nullopt;
      message = std::string(messages_[messages_.size() - 2].at("content").as_string());
      messages_.resize(messages_.size() - 2);
    }
    auto prompt = prompt_with(message);
    messages_ = std::move(kept);
    if (!prompt) return fail_turn(prompt.error());
    race_run runs[] = {{"plain", {}, {}}, {drafter_ == "none" ? "auto" : drafter_, {}, {}}};
    for (auto& one : runs) {
      tell("--- " + one.name + "\n");
      const auto begin = std::chrono::steady_clock::now();
      // Otherwise the second run would find the prompt in the prefix cache, and its drafter would find the
      // reply.
      auto made =
          reply(*prompt, one.name == "plain" ? "none" : one.name, "race " + std::to_string(++num_runs_));
      one.time = std::chrono::steady_clock::now() - begin;
      if (!made) return fail_turn(made.error());
      one.result = *std::move(made);
      if (one.result.last.finish == finish_reason::cancelled)
        return tell("The race was stopped.\n"), std::nullopt;
    }
    tell("---\n" + race_report(runs[0], runs[1]));
    return std::nullopt;
  }

  engine& runtime_;
  const served_model& model_;
  chat_options options_; ///< with the changes that commands have made
  std::string drafter_;  ///< of the next reply
  /// Ctrl-C drops a line or ends a reply, but never the conversation, whatever it interrupts.
  interrupt_watch watch_;
  std::unique_ptr<line_reader> reader_;
  message_lines lines_;
  json::array messages_;       ///< the messages of the conversation, without the system prompt
  std::uint64_t num_runs_ = 0; ///< number of races
};

} // namespace

int chat(const chat_options& given) {
  if (const int wrong = refuse_stray_parameters(given)) return wrong;
  auto options = given;
  settle_seed(options);
  auto runtime = start_local(options.choice, false);
  if (!runtime) return fail(runtime.error());
  if ((*runtime)->model("")->chat() == nullptr)
    return fail({errc::unsupported,
                 "the model has no chat template; --chat-template names one, and `paceline run` "
                 "continues texts"});
  return chat_session(**runtime, options).run();
}

} // namespace paceline::apps

#include "engine/served_model.hpp"
#include "protocol/wire/harmony_prompt.hpp"
#include "runtime/model/language_model.hpp"
#include "runtime/tokenizer/chat_template/chat_template.hpp"
#include "runtime/tokenizer/chat_template/request_variables.hpp"
#include "runtime/tokenizer/incremental_decoder.hpp"
#include "runtime/tokenizer/tokenizer.hpp"
#include "server/backend.hpp"
#include "server/edge_context.hpp"

#include <boost/json/value.hpp>

#include <map>
#include <mutex>

namespace paceline::server {

namespace {

namespace json = boost::json;

/// The special tokens under their names in templates, as spelled by the vocabulary.
tokenizer::special_spellings spellings_of(const tokenizer::tokenizer& vocabulary) {
  const auto spelling = [&](std::optional<token_id> token) {
    return token ? std::optional(std::string(vocabulary.spelling(*token))) : std::nullopt;
  };
  return {spelling(vocabulary.bos()), spelling(vocabulary.eos()), spelling(vocabulary.pad()), std::nullopt};
}

class vocabulary_decoder final : public text_decoder {
 public:
  explicit vocabulary_decoder(tokenizer::tokenizer vocabulary)
      : decoder_(std::move(vocabulary), {false, false}) {}
  std::string feed(token_id token) override { return decoder_.feed(token); }
  std::string flush() override { return decoder_.flush(); }

 private:
  tokenizer::incremental_decoder decoder_;
};

class engine_model final : public model_view {
 public:
  explicit engine_model(const served_model& served)
      : served_(served), created_(unix_time()), spellings_(spellings_of(served.vocabulary())) {
    limits_.name = served.name();
    limits_.vocab_size = served.info().vocab_size;
    limits_.context_length = served.context_length();
    limits_.eos_ids = served.eos_ids();
    limits_.drafters = served.drafters();
    limits_.default_rule = served.default_rule();
    takes_tools_ = has_chat_template() && shows_tools();
    if (has_chat_template()) reasoning_ = shown_reasoning();
    outputs_.calls = shown_calls();
    if (outputs_.calls == call_syntax::harmony)
      outputs_.reasoning =
          served.reasoning_parser() == "none" ? wire::reasoning_markers() : wire::harmony_markers;
    else if (served.reasoning_parser() == "think" ||
             (served.reasoning_parser() == "auto" && shows_thoughts()))
      outputs_.reasoning = wire::think_markers;
  }
  const wire::model_limits& limits() const noexcept override { return limits_; }
  const std::vector<std::string>& aliases() const noexcept override { return served_.aliases(); }
  std::int64_t created() const noexcept override { return created_; }

  std::size_t max_requests() const noexcept override { return served_.max_requests(); }

  expected<std::vector<token_id>> encode(std::string_view text, bool add_special, bool parse_special,
                                         std::size_t max_tokens) const override {
    return served_.vocabulary().encode(text, {add_special, parse_special, max_tokens});
  }
  std::string decode(std::span<const token_id> tokens, bool skip_special) const override {
    return served_.vocabulary().decode(tokens, {skip_special, false});
  }
  std::unique_ptr<text_decoder> decoder() const override {
    return std::make_unique<vocabulary_decoder>(served_.vocabulary());
  }
  std::optional<std::string> special_token(special_role role) const override {
    switch (role) {
    case special_role::begin:
      return spellings_.bos;
    case special_role::end:
      return spellings_.eos;
    case special_role::padding:
      return spellings_.pad;
    }
    return std::nullopt;
  }
  std::string token_bytes(token_id token) const override {
    const auto piece = served_.vocabulary().piece(token);
    return std::string(piece.empty() ? served_.vocabulary().spelling(token) : piece);
  }
  expected<std::shared_ptr<const token_constraint>>
  compile(const grammar::grammar_source& source) const override {
    // The compiler is not made when the model is loaded, because this takes up to a second and most models
    // never need it.
    std::call_once(has_compiler_, [this] {
      compiler_ = grammar::make_compiler(served_.vocabulary(), served_.info().vocab_size, served_.eos_ids());
    });
    return compiler_->compile(source);
  }
  bool is_special(token_id token) const override { return served_.vocabulary().is_special(token); }
  bool has_chat_template() const noexcept override { return served_.chat() != nullptr; }
  bool template_takes_tools() const noexcept override { return takes_tools_; }
  const template_reasoning& reasoning() const noexcept override { return reasoning_; }
  const wire::output_format& outputs() const noexcept override { return outputs_; }

  expected<std::string> render_chat(json::object asked) const override {
    if (outputs_.calls == call_syntax::harmony) wire::fit_to_harmony(asked);
    tokenizer::chat_request request;
    for (auto& entry : asked) {
      const auto name = entry.key();
      auto& value = entry.value();
      if (name == "messages")
        request.messages = std::move(value.as_array());
      else if (name == "tools")
        request.tools = std::move(value.as_array());
      else if (name == "add_generation_prompt")
        request.add_generation_prompt = value.as_bool();
      else
        request.template_arguments[name] = std::move(value);
    }
    const auto variables = tokenizer::request_variables(std::move(request), spellings_);
    if (!variables) return variables.error();
    auto text = served_.chat()->render(*variables);
    if (text) return text;
    return error{text.error().code(), without_name(text.error().message())};
  }

 private:
  /// A template's name may be a path on this machine, which clients must not see.
  std::string without_name(std::string message) const {
    const auto& name = served_.chat()->options().name;
    if (message.compare(0, name.size(), name) == 0) message.replace(0, name.size(), "chat template");
    return message;
  }

  static constexpr const char* probe = "paceline_probe";

  static json::array probe_tools() {
    const json::object function{
        {"name", probe},
        {"description", "-"},
        {"parameters", json::object{{"type", "object"}, {"properties", json::object{}}}}};
    return {json::object{{"type", "function"}, {"function", function}}};
  }

  /// Tests with a rendering whether a tool's name appears in the text.
  bool shows_tools() const {
    const json::object asked{{"messages", json::array{json::object{{"role", "user"}, {"content", "x"}}}},
                             {"tools", probe_tools()}};
    const auto text = render_chat(asked);
    return text && text->find(probe) != std::string::npos;
  }

  /// The configured syntax of calls, or the one in which the template writes a call of an earlier turn.
  call_syntax shown_calls() const {
    for (std::size_t i = 0; i < call_syntax_names.size(); ++i)
      if (served_.tool_call_parser() == call_syntax_names[i]) return static_cast<call_syntax>(i);
    if (!takes_tools_) return call_syntax::none;
    // Some templates require ids of nine letters or digits.
    const json::object call{{"id", "probe0001"},
                            {"type", "function"},
                            {"function", {{"name", probe}, {"arguments", {{"a", "b"}}}}}};
    const json::object asked{
        {"messages",
         json::array{json::object{{"role", "user"}, {"content", "x"}},
                     json::object{{"role", "assistant"}, {"content", ""}, {"tool_calls", json::array{call}}},
                     json::object{{"role", "tool"}, {"tool_call_id", "probe0001"}, {"content", "y"}}}},
        {"tools", probe_tools()}};
    const auto text = render_chat(asked);
    return text ? wire::call_syntax_of(*text, probe) : call_syntax::none;
  }

  /// A question rendered with these variables. The result is empty if rendering fails.
  std::string rendered(json::object variables) const {
    variables["messages"] = json::array{json::object{{"role", "user"}, {"content", "x"}}};
    variables["add_generation_prompt"] = true;
    const auto text = render_chat(std::move(variables));
    return text ? *text : std::string();
  }

  /// Renders a conversation to find out whether thoughts stand between <think> and </think>.
  bool shows_thoughts() const {
    if (!reasoning_.any) return false;
    for (const bool on : {false, true}) {
      const auto text = rendered({{"enable_thinking", on}, {"thinking", on}});
      if (text.find(wire::think_markers.open) != std::string::npos) return true;
    }
    return false;
  }

  /// Renders a conversation to find out whether the prompt opens a thought, or depends on the variables that
  /// templates have for reasoning.
  template_reasoning shown_reasoning() const {
    const auto thinking = [&](bool on) {
      return rendered(json::object{{"enable_thinking", on}, {"thinking", on}});
    };
    const auto effort = [&](const char* level) {
      return rendered(json::object{{"reasoning_effort", level}});
    };
    template_reasoning out;
    out.is_switched = thinking(true) != thinking(false);
    out.has_effort = effort("high") != effort("low");
    out.any = out.is_switched || out.has_effort ||
              rendered(json::object()).find(wire::think_markers.open) != std::string::npos;
    return out;
  }

  const served_model& served_;
  const std::int64_t created_;
  tokenizer::special_spellings spellings_;
  wire::model_limits limits_;
  bool takes_tools_ = false;
  template_reasoning reasoning_;
  wire::output_format outputs_;
  mutable std::once_flag has_compiler_;
  mutable std::unique_ptr<grammar::compiler> compiler_;
};

class engine_backend final : public backend {
 public:
  explicit engine_backend(engine& runtime) : runtime_(runtime) {
    for (const auto* served : runtime.models()) {
      models_.push_back(std::make_unique<engine_model>(*served));
      by_served_.emplace(served, models_.back().get());
    }
  }
  const model_view* model(std::string_view name) const noexcept override {
    const auto found = by_served_.find(runtime_.model(name));
    return found == by_served_.end() ? nullptr : found->second;
  }
  std::vector<const model_view*> models() const override {
    std::vector<const model_view*> all;
    for (const auto& model : models_) all.push_back(model.get());
    return all;
  }
  request_id submit(generation_request request, event_sink sink, flow_control flow) override {
    return runtime_.submit(std::move(request), std::move(sink), flow);
  }
  void cancel(request_id request) override { runtime_.cancel(request); }
  void grant(request_id request, std::uint32_t tokens) override { runtime_.grant(request, tokens); }
  bool healthy() const noexcept override { return runtime_.healthy(); }
  engine_snapshot snapshot() const override { return runtime_.snapshot(); }

 private:
  engine& runtime_;
  std::vector<std::unique_ptr<engine_model>> models_;
  std::map<const served_model*, const engine_model*> by_served_;
};

} // namespace

std::unique_ptr<backend> make_engine_backend(engine& runtime) {
  return std::make_unique<engine_backend>(runtime);
}

} // namespace paceline::server

#include "engine/served_model.hpp"
#include "protocol/wire/harmony_prompt.hpp"
#include "protocol/wire/mistral_prompt.hpp"
#include "runtime/model/language_model.hpp"
#include "runtime/tokenizer/incremental_decoder.hpp"
#include "runtime/tokenizer/tokenizer.hpp"
#include "server/backend.hpp"
#include "server/edge_context.hpp"
#include "server/template_probe.hpp"

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
    if (has_chat_template())
      template_ = probe_template([this](json::object asked) { return render_chat(std::move(asked)); });
    outputs_ = output_format_of(template_, served.tool_call_parser(), served.reasoning_parser());
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
  bool template_takes_tools() const noexcept override { return template_.takes_tools; }
  const template_reasoning& reasoning() const noexcept override { return template_.reasoning; }
  const wire::output_format& outputs() const noexcept override { return outputs_; }

  expected<std::string> render_chat(json::object asked) const override {
    if (outputs_.calls == call_syntax::harmony) wire::fit_to_harmony(asked);
    if (outputs_.calls == call_syntax::mistral) wire::fit_to_mistral(asked);
    auto text = server::render_chat(*served_.chat(), spellings_, std::move(asked));
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

  const served_model& served_;
  const std::int64_t created_;
  tokenizer::special_spellings spellings_;
  wire::model_limits limits_;
  template_traits template_;
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

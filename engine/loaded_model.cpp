#include "engine/loaded_model.hpp"

#include "engine/hash_vocabulary.hpp"
#include "engine/model_files.hpp"
#include "runtime/device/buffer.hpp"
#include "runtime/device/matrix.hpp"
#include "runtime/model/hash_model.hpp"
#include "runtime/model/heads/files/head_loader.hpp"
#include "runtime/model/loader/families/family_traits.hpp"
#include "runtime/model/transformer_loader.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <thread>

namespace paceline {

namespace {

/// The context length for models with a longer context. It determines the size of the KV memory.
constexpr std::uint32_t default_context_length = 8192;

model::hash_model_config hash_config(const config::model_options& options) {
  model::hash_model_config c;
  c.vocab_size = options.hash.vocab_size;
  c.context_length = options.context_length != 0 ? options.context_length : default_context_length;
  c.memory = options.hash.memory;
  c.sharpness = options.hash.sharpness;
  c.pass_work = options.hash.pass_work;
  return c;
}

/// Loads the weights of `source`; reports progress as stage `stage`.
expected<std::shared_ptr<const model::language_model>>
load_weights(const model::model_source& source, kv_type kv, device::compute_device& device,
             const std::string& stage, const std::function<void(const load_progress&)>& progress) {
  model::transformer_load_options options;
  options.kv_type = kv;
  options.num_threads = std::max(std::thread::hardware_concurrency(), 1U);
  if (progress)
    options.progress = [&](std::uint64_t done, std::uint64_t total) { progress({stage, done, total}); };
  auto made =
      model::load_transformer(source.config, source.weights, device.weights(), device.buffers(), options);
  if (!made) return std::move(made).error();
  return std::shared_ptr<const model::language_model>(*std::move(made));
}

} // namespace

loaded_model::loaded_model() = default;
loaded_model::~loaded_model() = default;

expected<void> loaded_model::load_hash(const config::model_options& options) {
  auto vocabulary = tokenizer::tokenizer::from_vocabulary(hash_vocabulary(options.hash.vocab_size));
  if (!vocabulary) return std::move(vocabulary).error();
  vocabulary_ = std::make_unique<tokenizer::tokenizer>(*std::move(vocabulary));
  auto chat = configured_chat_template(options.chat_template);
  if (!chat) return std::move(chat).error();
  if (*chat) chat_ = std::make_shared<const tokenizer::chat_template>(**std::move(chat));
  runs_ = std::make_shared<model::hash_model>(hash_config(options));
  return {};
}

namespace {

/// True if the model's files have a module that could draft, but no drafter uses it.
bool has_unused_module(const model::model_config& config, const config::model_options& options) {
  return model::traits_of(config.arch).has_mtp_module &&
         std::ranges::count(options.drafters, "mtp", &config::drafter_options::kind) == 0;
}

} // namespace

expected<void> loaded_model::load_file(const config::model_options& options, device::compute_device& device,
                                       const std::function<void(const load_progress&)>& progress) {
  auto source = model::open_model(options.path);
  if (!source) return std::move(source).error();
  auto vocabulary = make_tokenizer(*source);
  if (!vocabulary) return std::move(vocabulary).error();
  vocabulary_ = std::make_unique<tokenizer::tokenizer>(*std::move(vocabulary));
  auto chat = chat_template_of(*source, options.chat_template);
  if (!chat) return std::move(chat).error();
  if (*chat) chat_ = std::make_shared<const tokenizer::chat_template>(**std::move(chat));
  auto weights = load_weights(*source, options.kv_dtype, device, options.name, progress);
  if (!weights) return std::move(weights).error();
  runs_ = *std::move(weights);
  eos_ids_ = source->eos_ids;
  unused_parts_ = to_text(source->weights.skipped());
  if (source->weights.num_mtp_tensors() != 0 && has_unused_module(source->config, options))
    unused_parts_ += std::string(unused_parts_.empty() ? "" : "; ") +
                     "the module for multi-token prediction is not used: a drafter of kind mtp uses it";
  return {};
}

expected<std::unique_ptr<loaded_model>>
loaded_model::load(const config::model_options& options, device::compute_device& device,
                   const std::function<void(const load_progress&)>& progress) {
  std::unique_ptr<loaded_model> made(new loaded_model);
  made->name_ = options.name;
  made->aliases_ = options.aliases;
  made->tool_call_parser_ = options.tool_call_parser;
  made->reasoning_parser_ = options.reasoning_parser;
  made->default_rule_ = options.default_rule;
  made->max_requests_ = options.max_running + options.max_waiting;
  auto loaded =
      options.kind == "hash" ? made->load_hash(options) : made->load_file(options, device, progress);
  if (!loaded) return std::move(loaded).error();
  // A tokenizer may have tokens for which the model has no logits, so that it never gives them.
  const auto num_tokens = made->runs_->info().vocab_size;
  for (auto id : made->vocabulary_->eos_like())
    if (static_cast<std::uint32_t>(id.value) < num_tokens) made->eos_ids_.push_back(id);
  std::ranges::sort(made->eos_ids_);
  made->eos_ids_.erase(std::ranges::unique(made->eos_ids_).begin(), made->eos_ids_.end());
  const auto own = made->runs_->info().context_length;
  made->context_length_ =
      std::min(own, options.context_length != 0 ? options.context_length : default_context_length);
  return made;
}

expected<loaded_draft_model> load_draft_model(const config::drafter_options& options,
                                              const config::model_options& target_options,
                                              const loaded_model& target, device::compute_device& device,
                                              const std::function<void(const load_progress&)>& progress) {
  auto source = model::open_model(options.path);
  if (!source) return std::move(source).error();
  auto vocabulary = make_tokenizer(*source);
  if (!vocabulary) return std::move(vocabulary).error();
  if (options.vocabulary == config::draft_vocabulary::same)
    if (auto ok = tokenizer::check_compatible(target.vocabulary(), *vocabulary); !ok)
      return std::move(ok).error();
  auto weights = load_weights(*source, target_options.kv_dtype, device,
                              target_options.name + "/" + options.name, progress);
  if (!weights) return std::move(weights).error();
  if ((*weights)->info().state_bytes != 0)
    return error{errc::unsupported,
                 options.path + ": a model of architecture " + (*weights)->info().architecture +
                     " cannot draft: its recurrent state would need slots in the drafter's pool"};
  return loaded_draft_model{*std::move(weights),
                            std::make_shared<const tokenizer::tokenizer>(*std::move(vocabulary))};
}

expected<std::shared_ptr<const model::draft_head>>
load_draft_head(const config::drafter_options& options, const config::model_options& target_options,
                const loaded_model& target, device::compute_device& device) {
  auto of = std::dynamic_pointer_cast<const model::transformer>(target.runs());
  if (!of)
    return error{errc::unsupported,
                 "a head cannot read a model of architecture " + target.info().architecture};
  model::head_load_options load;
  load.kv_type = target_options.kv_dtype;
  load.overrides.rope_theta = options.rope_theta;
  if (options.weights != config::head_format::stored)
    load.format =
        options.weights == config::head_format::q8_0 ? device::tensor_type::q8_0 : device::tensor_type::q4_0;
  if (options.mtp_order != config::mtp_concat::by_file)
    load.overrides.hidden_first = options.mtp_order == config::mtp_concat::hidden_first;
  if (options.alignment != config::slot_alignment::by_file)
    load.overrides.predicts_next = options.alignment == config::slot_alignment::next;
  for (const auto& text : options.taps) {
    std::uint32_t layer = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), layer);
    if (failed != std::errc() || end != text.data() + text.size() || layer > of->info().num_layers)
      return error{errc::invalid_argument, "taps: \"" + text + "\" is not a layer of the target, which has " +
                                               std::to_string(of->info().num_layers)};
    load.overrides.taps.push_back(layer_index{layer});
  }
  const std::string& path =
      options.path.empty() ? target_options.path : options.path; // the module in the model's own files
  return model::load_draft_head(options.kind, path, std::move(of), load, device.weights(), device.buffers());
}

expected<std::shared_ptr<const model::lookahead_inputs>>
load_lookahead_inputs(const config::drafter_options& options, const loaded_model& target) {
  auto made = model::load_lookahead_inputs(options.kind, options.path, target.info().hidden_size);
  if (!made) return std::move(made).error();
  return std::make_shared<const model::lookahead_inputs>(*std::move(made));
}

} // namespace paceline

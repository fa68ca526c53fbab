#include "engine/loaded_model.hpp"

#include "engine/hash_vocabulary.hpp"
#include "runtime/model/hash_model.hpp"
#include "runtime/tokenizer/tokenizer.hpp"

#include <algorithm>

namespace paceline {

namespace {

constexpr std::uint32_t default_context_length = 8192; ///< of models made for more: KV memory is sized by it

model::hash_model_config hash_config(const config::model_options& options) {
  model::hash_model_config c;
  c.vocab_size = options.hash.vocab_size;
  c.context_length = options.context_length != 0 ? options.context_length : default_context_length;
  c.memory = options.hash.memory;
  c.sharpness = options.hash.sharpness;
  c.pass_work = options.hash.pass_work;
  return c;
}

} // namespace

loaded_model::loaded_model() = default;
loaded_model::~loaded_model() = default;

expected<std::unique_ptr<loaded_model>> load_model(const config::model_options& options, device::weight_memory&,
                                                   const std::function<void(const load_progress&)>&) {
  std::unique_ptr<loaded_model> made(new loaded_model);
  made->name_ = options.name;
  made->aliases_ = options.aliases;
  if (options.kind == "hash") {
    auto vocabulary = tokenizer::tokenizer::from_vocabulary(hash_vocabulary(options.hash.vocab_size));
    if (!vocabulary) return std::move(vocabulary).error();
    made->vocabulary_ = std::make_unique<tokenizer::tokenizer>(*std::move(vocabulary));
    made->runs_ = std::make_shared<model::hash_model>(hash_config(options));
  } else {
    return error{errc::unsupported, "kind: \"" + options.kind + "\" is not one of hash"};
  }
  const auto eos = made->vocabulary_->eos_like();
  made->eos_ids_.assign(eos.begin(), eos.end());
  const auto own = made->runs_->info().context_length;
  const auto wanted = options.context_length != 0 ? options.context_length : default_context_length;
  made->context_length_ = std::min(own, wanted);
  return made;
}

expected<std::shared_ptr<const model::language_model>>
load_draft_model(const config::drafter_options& options, const loaded_model&, device::weight_memory&,
                 const std::function<void(const load_progress&)>&) {
  return error{errc::unsupported, "path: " + options.path};
}

} // namespace paceline

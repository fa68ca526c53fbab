#pragma once

#include "config/engine_options.hpp"
#include "engine/engine.hpp"
#include "engine/served_model.hpp"
#include "runtime/device/compute_device.hpp"
#include "runtime/model/heads/draft_head.hpp"
#include "runtime/model/heads/lookahead_inputs.hpp"
#include "runtime/model/language_model.hpp"

#include <functional>
#include <memory>

namespace paceline {

/// A loaded target: the public view of the model, and the model that computes its passes (`runs`).
class loaded_model final : public served_model {
 public:
  /// Loads the target named in `options`: vocabulary, chat template, and the weights onto `device`, which
  /// must outlive the model.
  static expected<std::unique_ptr<loaded_model>>
  load(const config::model_options& options, device::compute_device& device,
       const std::function<void(const load_progress&)>& progress);
  ~loaded_model() override;

  const std::string& name() const noexcept override { return name_; }
  const std::vector<std::string>& aliases() const noexcept override { return aliases_; }
  const model::model_info& info() const noexcept override { return runs_->info(); }
  const tokenizer::tokenizer& vocabulary() const noexcept override { return *vocabulary_; }
  const tokenizer::chat_template* chat() const noexcept override { return chat_.get(); }
  const std::string& tool_call_parser() const noexcept override { return tool_call_parser_; }
  const std::string& reasoning_parser() const noexcept override { return reasoning_parser_; }
  const std::vector<token_id>& eos_ids() const noexcept override { return eos_ids_; }
  std::uint32_t context_length() const noexcept override { return context_length_; }
  const std::vector<std::string>& drafters() const noexcept override { return drafters_; }
  const std::vector<std::uint32_t>& draft_lengths() const noexcept override { return draft_lengths_; }
  verification_rule default_rule() const noexcept override { return default_rule_; }
  std::uint32_t max_requests() const noexcept override { return max_requests_; }
  const std::vector<pass_time>& pass_times() const noexcept override { return pass_times_; }
  const std::string& unused_parts() const noexcept override { return unused_parts_; }
  const std::string& shortage() const noexcept override { return shortage_; }

  const std::shared_ptr<const model::language_model>& runs() const noexcept { return runs_; }
  void set_drafters(std::vector<std::string> names, std::vector<std::uint32_t> draft_lengths) {
    drafters_ = std::move(names);
    draft_lengths_ = std::move(draft_lengths);
  }
  void set_shortage(std::string text) { shortage_ = std::move(text); }
  void set_pass_times(std::vector<pass_time> times) { pass_times_ = std::move(times); }

 private:
  loaded_model();
  expected<void> load_hash(const config::model_options& options);
  expected<void> load_file(const config::model_options& options, device::compute_device& device,
                           const std::function<void(const load_progress&)>& progress);

  std::string name_;
  std::vector<std::string> aliases_;
  std::shared_ptr<const model::language_model> runs_;
  std::unique_ptr<tokenizer::tokenizer> vocabulary_;
  std::shared_ptr<const tokenizer::chat_template> chat_; ///< null: none
  std::string tool_call_parser_;
  std::string reasoning_parser_;
  std::vector<token_id> eos_ids_;
  std::uint32_t context_length_ = 0;
  std::vector<std::string> drafters_;
  std::vector<std::uint32_t> draft_lengths_;
  verification_rule default_rule_ = verification_rule::coupled;
  std::uint32_t max_requests_ = 0;
  std::vector<pass_time> pass_times_;
  std::string unused_parts_;
  std::string shortage_;
};

/// A drafter's own model, with its vocabulary.
struct loaded_draft_model {
  std::shared_ptr<const model::language_model> runs;
  std::shared_ptr<const tokenizer::tokenizer> vocabulary;
};

/// Loads a drafter's own model. Error if its vocabulary differs from the target's, unless option `vocabulary`
/// of the drafter says how to translate between them.
expected<loaded_draft_model> load_draft_model(const config::drafter_options& options,
                                              const config::model_options& target_options,
                                              const loaded_model& target, device::compute_device& device,
                                              const std::function<void(const load_progress&)>& progress);

/// Loads a drafter's trained head onto the target's device. Error if the target is not a transformer.
expected<std::shared_ptr<const model::draft_head>>
load_draft_head(const config::drafter_options& options, const config::model_options& target_options,
                const loaded_model& target, device::compute_device& device);

/// Loads the trained input vectors of a drafter (kinds pass and ppd).
expected<std::shared_ptr<const model::lookahead_inputs>>
load_lookahead_inputs(const config::drafter_options& options, const loaded_model& target);

} // namespace paceline

#pragma once

#include "runtime/speculation/drafters/registry.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace paceline::speculation {

/// Kind "model": a smaller model of the target's vocabulary writes the draft, token by token, all requests of
/// the batch together in one pass a token. Runs on its own worker and stream with a KV pool of its own.
///
/// Rule `coupled`: a draft token is the request's own sample (target noise) from this model's row, processed
/// by the request's pipeline: where both models agree on the distribution they agree on the token. Rule
/// `rejection`: it is drawn with noise of purpose `draft` from the processed distribution truncated to 64
/// entries, which is reported.
class model_drafter final : public drafter {
 public:
  /// Tokens a call may run to catch up with the committed ones (prompts of new requests), over all tasks.
  static constexpr std::uint32_t max_catch_up = 512;

  model_drafter(const config::drafter_options& options,
                std::shared_ptr<const model::language_model> own_model, std::uint32_t target_vocab_size);

  const drafter_traits& traits() const noexcept override { return traits_; }
  std::unique_ptr<drafter_session> open(request_id request) override;
  void propose(device::ops& ops, model::kv_storage* kv, std::span<draft_task> tasks) override;
  const model::language_model* own_model() const noexcept override { return model_.get(); }

 private:
  struct lane;
  struct pass;

  std::uint32_t depth_limit(const draft_task& task, const model::kv_storage& kv) const;
  void plan_catch_up(std::vector<lane>& lanes, pass& next) const;
  void run(device::ops& ops, model::kv_storage& kv, const std::vector<lane>& lanes, pass& next);
  bool take_token(lane& to, std::span<float> logits) const;

  drafter_traits traits_;
  std::shared_ptr<const model::language_model> model_;
  std::uint32_t target_vocab_size_;
  std::vector<float> logits_; ///< of one pass; `propose` is called from one stream at a time
};

/// Needs `own_model`; fails without it.
expected<std::unique_ptr<drafter>> make_model_drafter(const drafter_parts& parts);

} // namespace paceline::speculation

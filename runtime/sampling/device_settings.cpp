#include "runtime/sampling/pipeline.hpp"

// Converts a request's settings to the form of the op `choose`.

namespace paceline::sampling {

std::optional<device::token_choice>
pipeline::settings_for_device(const row_context& first, std::size_t vocab_size,
                              std::vector<device::penalised_token>& counts) const {
  if (first.constraint != nullptr) return std::nullopt;
  const bool keeps_few = truncation_.top_k > 0 && truncation_.top_k <= device::max_top_k;
  const bool keeps_many = truncation_.top_k < vocab_size && truncation_.top_k > device::max_top_k;
  if (!greedy() && !keeps_few && (keeps_many || truncation_.top_p < 1.0F)) return std::nullopt;
  device::token_choice settings;
  if (!greedy() && keeps_few) {
    settings.top_k = static_cast<std::uint32_t>(truncation_.top_k);
    settings.top_p = truncation_.top_p;
  }
  settings.position = first.position;
  settings.temperature = params_.temperature;
  settings.min_score = truncation_.least_score();
  settings.seed = params_.seed;
  settings.choice_index = params_.choice_index;
  settings.biases = params_.logit_bias;
  counts.clear();
  if (penalties_) {
    settings.repetition_penalty = params_.repetition_penalty;
    settings.presence_penalty = params_.presence_penalty;
    settings.frequency_penalty = params_.frequency_penalty;
    if (first.committed != nullptr)
      for (const token_counts::entry& entry : first.committed->entries())
        counts.push_back({entry.token, entry.output});
    settings.counts = counts;
  }
  settings.removed = stop_like_ids_;
  settings.num_removing = min_tokens_ > first.output_index ? min_tokens_ - first.output_index : 0;
  return settings;
}

} // namespace paceline::sampling

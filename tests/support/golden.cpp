#include "tests/support/golden.hpp"

#include "tests/support/paged_sequences.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace paceline::test {
namespace {

std::vector<token_id> ids(const boost::json::value& list) {
  std::vector<token_id> out;
  for (const auto& id : list.as_array()) out.emplace_back(id.to_number<std::int32_t>());
  return out;
}

double log_sum_exp(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - max);
  return max + std::log(sum);
}

/// Logits before each answer token, [answer.size()][vocab_size], in one pass.
std::vector<float> teacher_forced_logits(const model::transformer& model, const pass_runner& forward,
                                         const golden_prompt& golden) {
  constexpr std::uint32_t block_size = 16;
  const auto first = static_cast<std::uint32_t>(golden.prompt.size()) - 1;
  const auto num_rows = first + static_cast<std::uint32_t>(golden.answer.size());
  paged_sequences paged(block_size, num_rows / block_size + 1, 1);
  paged.add_sequence(num_rows);
  auto rows = paged.chain_rows(0, 0, num_rows);
  for (std::uint32_t p = 0; p < num_rows; ++p)
    rows[p].token = p <= first ? golden.prompt[p] : golden.answer[p - first - 1];
  std::vector<std::uint32_t> wanted;
  for (std::uint32_t p = first; p < num_rows; ++p) wanted.push_back(p);
  std::vector<float> logits(wanted.size() * model.info().vocab_size);
  const auto kv = model.make_kv_storage(num_rows / block_size + 1, block_size);
  forward(paged.batch(rows), *kv, {wanted, logits, {}});
  return logits;
}

} // namespace

std::vector<golden_prompt> read_golden(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path.string() + ": cannot be opened");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<golden_prompt> prompts;
  const auto json = boost::json::parse(text);
  for (const auto& entry : json.as_array()) {
    golden_prompt prompt{ids(entry.at("prompt_ids")), ids(entry.at("greedy_ids")), {}, {}};
    for (const auto& margin : entry.at("margin").as_array())
      prompt.margin.push_back(margin.to_number<double>());
    for (const auto& position : entry.at("top").as_array()) {
      auto& best = prompt.top.emplace_back();
      for (const auto& pair : position.as_array())
        best.emplace_back(token_id{pair.at(0).to_number<std::int32_t>()}, pair.at(1).to_number<double>());
    }
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

agreement measure_agreement(cpu_model& model, const std::vector<golden_prompt>& prompts) {
  const auto forward = [&](const auto& batch, auto& kv, const auto& outputs) {
    model.forward(batch, kv, outputs);
  };
  return measure_agreement(model.get(), forward, prompts);
}

agreement measure_agreement(const model::transformer& model, const pass_runner& forward,
                            const std::vector<golden_prompt>& prompts) {
  const std::size_t vocab_size = model.info().vocab_size;
  agreement result;
  double difference = 0;
  for (const golden_prompt& golden : prompts) {
    const std::vector<float> all = teacher_forced_logits(model, forward, golden);
    for (std::size_t i = 0; i < golden.answer.size(); ++i) {
      const std::span logits(all.data() + i * vocab_size, vocab_size);
      const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
      const auto& [expected, logprob] = golden.top[i].front();
      difference +=
          std::fabs(logits[static_cast<std::size_t>(expected.value)] - log_sum_exp(logits) - logprob);
      ++result.num_positions;
      if (golden.margin[i] <= 0.1) continue;
      ++result.num_clear;
      if (best == expected.value) ++result.num_clear_same_best;
    }
  }
  result.mean_difference = difference / result.num_positions;
  return result;
}

} // namespace paceline::test

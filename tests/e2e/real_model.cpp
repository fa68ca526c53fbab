#include "tests/e2e/real_model.hpp"

#include "runtime/sampling/pipeline.hpp"
#include "tests/support/cpu_model.hpp"
#include "tests/support/test_drafters.hpp"

#include <array>
#include <cstdlib>

namespace paceline::test {

namespace {

constexpr std::uint32_t context_length = 128;

/// Beginnings of texts in SmolLM2's tokens; most repeat themselves, so that n-grams match.
const std::array<std::vector<std::int32_t>, 8> prompts{{
    // "The quick brown fox jumps over the lazy dog. The quick brown fox"
    {504, 2365, 6354, 16438, 27003, 690, 260, 23790, 2767, 30, 378, 2365, 6354, 16438},
    // "1, 2, 3, 4, 5, 6,": 16 tokens, one whole block
    {33, 28, 216, 34, 28, 216, 35, 28, 216, 36, 28, 216, 37, 28, 216, 38, 28},
    // "Once upon a time, there was a"
    {6403, 1980, 253, 655, 28, 665, 436, 253},
    // "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return"
    {1604, 803, 24,   81,  28, 278, 727, 472, 1003, 253, 1232, 278,
     198,  198, 1604, 840, 24, 81,  28,  278, 727,  472, 1003},
    // "The capital of France is Paris. The capital of Germany is Berlin. The capital of Italy is"
    {504, 3575, 282, 4649, 314, 7042, 30, 378, 3575, 282, 4521, 314, 11452, 30, 378, 3575, 282, 7158, 314},
    // "To be or not to be, that is"
    {2068, 325, 355, 441, 288, 325, 28, 338, 314},
    // "the red cat, the red dog, the red cat, the red dog, the red cat,"
    {1195, 2382, 2644, 28,   260,  2382, 2767, 28,   260,  2382,
     2644, 28,   260,  2382, 2767, 28,   260,  2382, 2644, 28},
    // "Hello"
    {19556},
}};

std::vector<token_id> decode_one(cpu_model& model, const generation_request& request) {
  constexpr std::uint32_t block_size = 16;
  const auto kv = model.make_kv(context_length / block_size, block_size);
  std::vector<block_id> blocks;
  for (std::uint32_t b = 0; b < kv->num_blocks(); ++b) blocks.emplace_back(b);
  const device::sequence_kv sequence{blocks};
  const sampling::pipeline pipeline(request.sampling, request.stop);
  sampling::token_counts counts;
  counts.add_prompt(request.prompt);
  std::vector<float> logits(model.get().info().vocab_size);
  std::vector<token_id> tokens = request.prompt;
  const std::vector<std::uint32_t> first_row{0};
  for (std::uint32_t position = 0; position + 1 < request.prompt.size() + request.stop.max_tokens;
       ++position) {
    const device::batch_entry row{tokens[position], token_position{position}, kv_slot{position}, 0, 0, 0};
    model.forward({{&row, 1}, {&sequence, 1}, {}}, *kv, {first_row, logits, {}});
    if (position + 1 < tokens.size()) continue; // within the prompt
    const auto output_index = static_cast<std::uint32_t>(tokens.size() - request.prompt.size());
    const sampling::row_context at{.committed = &counts,
                                   .draft_path = {},
                                   .position = token_position{position + 1},
                                   .output_index = output_index};
    tokens.push_back(pipeline.process_and_sample(logits, at));
    counts.add_output(tokens.back());
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(request.prompt.size()), tokens.end()};
}

config::drafter_options drafter(std::string name, std::string kind, const std::filesystem::path& path = {}) {
  config::drafter_options options;
  options.name = std::move(name);
  options.kind = std::move(kind);
  options.path = path;
  options.ngram_min = 1;
  return options;
}

} // namespace

std::optional<std::filesystem::path> smollm2_file() {
  const char* directory = std::getenv("PACELINE_MODEL_DIR");
  if (directory == nullptr) return std::nullopt;
  auto path = std::filesystem::path(directory) / "smollm2.gguf";
  return std::filesystem::exists(path) ? std::optional(std::move(path)) : std::nullopt;
}

std::filesystem::path drafter_file(const std::string& name) {
  return std::filesystem::path(PACELINE_BINARY_DIR) / "drafters" / ("smollm2-" + name + ".gguf");
}

generation_request real_request(std::uint32_t n, float temperature, std::uint32_t max_tokens) {
  generation_request r;
  for (const auto id : prompts.at(n)) r.prompt.emplace_back(id);
  r.stop.max_tokens = max_tokens;
  r.stop.ignore_eos = true;
  r.sampling.temperature = temperature;
  r.sampling.seed = 100 + 2 * n + (temperature > 0 ? 1 : 0);
  r.sampling.repetition_penalty = n % 4 == 3 ? 1.1F : 1.0F;
  return r;
}

token_table decode_plainly(const std::filesystem::path& path,
                           const std::vector<generation_request>& requests) {
  cpu_model_options options;
  options.num_threads = 2;
  auto model = cpu_model::open(path, options);
  token_table out;
  for (const auto& request : requests) out.emplace(request.sampling.seed, decode_one(model, request));
  return out;
}

std::function<std::vector<float>(std::span<const token_id>)>
logits_of_file(const std::filesystem::path& path) {
  cpu_model_options options;
  options.num_threads = 2;
  auto model = std::make_shared<cpu_model>(cpu_model::open(path, options));
  return [model](std::span<const token_id> context) {
    constexpr std::uint32_t block_size = 16;
    const auto kv = model->make_kv(context_length / block_size, block_size);
    std::vector<block_id> blocks;
    for (std::uint32_t b = 0; b < kv->num_blocks(); ++b) blocks.emplace_back(b);
    const device::sequence_kv sequence{blocks};
    std::vector<device::batch_entry> rows;
    for (std::uint32_t i = 0; i < context.size(); ++i)
      rows.push_back({context[i], token_position{i}, kv_slot{i}, 0, 0, 0});
    std::vector<float> logits(model->get().info().vocab_size);
    const std::vector<std::uint32_t> last{static_cast<std::uint32_t>(context.size()) - 1};
    model->forward({rows, {&sequence, 1}, {}}, *kv, {last, logits, {}});
    return logits;
  };
}

config::engine_options real_engine_options(config::overlap_mode overlap) {
  config::engine_options options;
  config::model_options model;
  model.name = "smollm2";
  model.path = smollm2_file().value();
  model.context_length = context_length;
  model.drafters = {
      drafter("ngram", "ngram"), drafter("wrong", "wrong"), drafter("itself", "model", model.path),
      drafter("layers", "model", drafter_file("12-layers")), drafter("q2_k", "model", drafter_file("q2_k"))};
  const std::uint32_t partitions = overlap == config::overlap_mode::off ? 1 : 2;
  for (auto& d : model.drafters) d.partition = partitions - 1;
  options.models.push_back(std::move(model));
  options.threads = 2;
  options.partitions = partitions;
  options.overlap = overlap;
  return options;
}

speculation::drafter_registry registry_with_wrong(std::shared_ptr<const token_table> right) {
  auto registry = speculation::drafter_registry::with_built_in();
  registry.add(
      "wrong",
      [right](const speculation::drafter_parts& parts) -> expected<std::unique_ptr<speculation::drafter>> {
        const auto recited = [right](const speculation::draft_task& task, std::span<const token_id> path) {
          const auto found = right->find(task.sampling->params().seed);
          const auto at = task.tokens.size() - task.prompt_length + path.size();
          return found == right->end() || at >= found->second.size() ? token_id{-1} : found->second[at];
        };
        return make_scripted_drafter(parts.options.name, contradict(recited, parts.target_vocab_size));
      });
  return registry;
}

} // namespace paceline::test

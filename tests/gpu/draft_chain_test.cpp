// Drafts that a GPU makes in one launch: their tokens, and the cells they leave, have the bits of drafts made
// pass by pass on the same GPU.
#include "runtime/model/loader/gguf/gguf_model.hpp"
#include "runtime/model/loader/model_source.hpp"
#include "runtime/model/transformer_loader.hpp"
#include "runtime/speculation/drafters/model_drafter.hpp"
#include "tests/gpu/tested_device.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tensor_compare.hpp"
#include "tests/support/tiny_hf_model.hpp"
#include "tests/support/tiny_model.hpp"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <tuple>

namespace paceline::gpu {
namespace {

using device::tensor_type;
using model::architecture;
using speculation::draft;
using speculation::draft_task;

constexpr std::uint32_t block_size = 4, blocks_each = 40, context_length = 150, most_requests = 9;

/// A model that only offers passes.
class pass_by_pass final : public model::language_model {
 public:
  explicit pass_by_pass(const model::language_model& of) : of_(of) {}
  const model::model_info& info() const noexcept override { return of_.info(); }
  std::unique_ptr<model::kv_storage> make_kv_storage(std::uint32_t num_blocks, std::uint32_t size,
                                                     std::span<const layer_index> taps = {}) const override {
    return of_.make_kv_storage(num_blocks, size, taps);
  }
  void forward(device::ops& ops, const device::row_batch& batch, model::kv_storage& kv,
               const model::forward_outputs& outputs) const override {
    of_.forward(ops, batch, kv, outputs);
  }

 private:
  const model::language_model& of_;
};

/// A request that is drafted for.
struct drafted_request {
  std::vector<token_id> tokens;
  sampling::pipeline pipeline;
  std::uint32_t draft_length = 4;
  std::uint32_t prompt_length = 0;
  verification_rule rule = verification_rule::coupled;
};

/// One drafter with its pool and its state for each request.
struct drafting {
  std::unique_ptr<speculation::model_drafter> drafter;
  std::unique_ptr<model::kv_storage> kv;
  std::vector<std::unique_ptr<speculation::drafter_session>> sessions;
};

class draft_chains : public gpu_test,
                     public testing::WithParamInterface<std::tuple<architecture, tensor_type, kv_type>> {
 protected:
  draft_chains() : gpu_test(arithmetic::sixteen_bit) {}

  void SetUp() override {
    gpu_test::SetUp();
    if (IsSkipped()) return;
    test::tiny_model options;
    kv_type cells{};
    std::tie(options.arch, options.type, cells) = GetParam();
    options.context_length = context_length;
    if (device::traits_of(options.type)->block_values == 256)
      options.hidden_size = options.ffn_size = 256, options.head_dim = 64;
    if (options.type == tensor_type::q8_0) options.ffn_size = 320; // two splits
    options.type == tensor_type::f8_e4m3 ? load_fp8(options, cells) : load_gguf(options, cells);
    by_passes_ = std::make_unique<pass_by_pass>(*model_);
    for (const bool in_chains : {false, true}) make_drafting(in_chains, false);
  }
  void TearDown() override {
    if (stream_) stream_.reset();
    for (auto& one : drafting_) one = {};
    by_passes_.reset();
    model_.reset();
    gpu_test::TearDown();
  }

  void load_gguf(const test::tiny_model& options, kv_type cells) {
    bytes_ = test::make_tiny_gguf(options).build();
    file_.emplace(*model::gguf_file::parse(bytes_, "tiny.gguf"));
    const auto config = *model::read_gguf_config(*file_);
    load(config, *model::read_gguf_weights(*file_, config), cells);
  }
  void load_fp8(test::tiny_model options, kv_type cells) {
    options.type = tensor_type::f32;
    options.hidden_size = 192, options.head_dim = 32, options.ffn_size = 320;
    const test::scratch_folder folder; // the file stays open
    test::write_tiny_hf(options, folder.path(), 1, {test::fp8_scales::blocks});
    const auto source = *model::open_model(folder.path());
    load(source.config, source.weights, cells);
  }
  void load(const model::model_config& config, const model::weights_source& source, kv_type cells) {
    model_ = *model::load_transformer(config, source, gpu_->weights(), gpu_->buffers(),
                                      {.kv_type = cells, .num_threads = 1, .progress = {}});
  }

  void make_drafting(bool in_chains, bool greedy) {
    drafting& one = drafting_[in_chains];
    const model::language_model& of =
        in_chains ? static_cast<const model::language_model&>(*model_) : *by_passes_;
    config::drafter_options options;
    options.name = "small", options.kind = "model";
    speculation::model_drafter_settings settings;
    settings.greedy = greedy;
    one.drafter = std::make_unique<speculation::model_drafter>(
        options,
        speculation::draft_network{
            .model = std::shared_ptr<const model::language_model>(std::shared_ptr<void>(), &of)},
        of.info().vocab_size, settings);
    one.kv = of.make_kv_storage(most_requests * blocks_each, block_size);
    one.sessions.clear();
    std::vector<block_id> blocks;
    for (std::uint32_t b = 0; b < most_requests * blocks_each; ++b) blocks.emplace_back(b);
    one.kv->poison(blocks); // makes reads of unwritten cells visible
  }

  drafted_request& add_request(std::uint32_t prompt_length, const sampling_params& params,
                               const stop_params& stop = {}) {
    drafted_request one{{}, sampling::pipeline(params, stop)};
    for (std::uint32_t i = 0; i < prompt_length; ++i) one.tokens.push_back(random_token());
    one.prompt_length = prompt_length;
    for (drafting& by : drafting_) by.sessions.push_back(by.drafter->open(request_id{requests_.size()}));
    requests_.push_back(std::move(one));
    return requests_.back();
  }

  token_id random_token() {
    return token_id{static_cast<std::int32_t>(random_() % model_->info().vocab_size)};
  }

  std::vector<draft> propose(drafting& by, bool fails = false) {
    std::vector<draft_task> tasks(requests_.size());
    std::vector<std::vector<block_id>> blocks(requests_.size());
    std::vector<sampling::token_counts> counts(requests_.size());
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const drafted_request& of = requests_[i];
      for (std::uint32_t b = 0; b < blocks_each; ++b) // not contiguous
        blocks[i].emplace_back((b * 7 % blocks_each) * most_requests + static_cast<std::uint32_t>(i));
      counts[i].add_prompt(std::span(of.tokens).first(of.prompt_length));
      for (std::size_t t = of.prompt_length; t < of.tokens.size(); ++t) counts[i].add_output(of.tokens[t]);
      tasks[i].tokens = of.tokens;
      tasks[i].sampling = &of.pipeline;
      tasks[i].counts = &counts[i];
      tasks[i].prompt_length = of.prompt_length;
      tasks[i].rule = of.rule;
      tasks[i].draft_length = of.draft_length;
      tasks[i].max_nodes = of.draft_length;
      tasks[i].blocks = blocks[i];
      tasks[i].session = by.sessions[i].get();
    }
    const auto done =
        stream_->submit("draft", {}, [&](device::ops& ops) { by.drafter->propose(ops, by.kv.get(), tasks); });
    done.wait();
    EXPECT_EQ(done.failure().has_value(), fails);
    std::vector<draft> out;
    for (draft_task& task : tasks) out.push_back(std::move(task.result));
    return out;
  }

  /// All values of a pool.
  std::vector<std::uint32_t> cells_of(const drafting& by) {
    std::vector<std::uint32_t> all;
    const auto& cells = dynamic_cast<const model::kv_cells&>(*by.kv);
    for (std::uint32_t l = 0; l < cells.num_layers(); ++l) {
      const device::kv_layer& layer = cells.layer(l);
      const std::size_t num_cells = std::size_t{layer.num_heads} * layer.block_size; // of a block
      const std::size_t words = num_cells * layer.head_dim * traits_of(layer.type).value_bytes / 4;
      for (block_id block{0}; block.value < layer.num_blocks; ++block.value) {
        const auto append = [&](const void* array, std::size_t first_word, std::size_t num_words) {
          if (array == nullptr) return;
          const auto some = download(static_cast<const std::uint32_t*>(array) + first_word, num_words);
          all.insert(all.end(), some.begin(), some.end());
        };
        for (const void* const array : {layer.keys, layer.values})
          append(array, layer.key_index(block, 0, 0, 0) * traits_of(layer.type).value_bytes / 4, words);
        for (const void* const array : {layer.key_scales, layer.value_scales})
          append(array, layer.scale_index(block, 0, 0), num_cells);
      }
    }
    return all;
  }

  /// Drafts of both kinds have the same tokens and cells, in rounds that keep part of the drafts. The first
  /// round is that of new requests, which are prompts. Returns the number of drafted tokens in the other
  /// rounds.
  std::size_t expect_equal_drafts(std::uint32_t num_rounds) {
    std::size_t num_tokens = 0;
    for (std::uint32_t round = 0; round < num_rounds; ++round) {
      const std::vector<draft> expected = propose(drafting_[0]);
      const auto launches = num_calls("cudaLaunchKernel"), graphs = num_calls("cudaGraphLaunch");
      const auto together = num_calls("cudaLaunchCooperativeKernel");
      const std::vector<draft> actual = propose(drafting_[1]);
      if (launches && round > 0) {
        EXPECT_EQ(*num_calls("cudaLaunchCooperativeKernel"), *together + 1);
        EXPECT_EQ(*num_calls("cudaLaunchKernel"), *launches) << "one launch a round";
        EXPECT_EQ(*num_calls("cudaGraphLaunch"), *graphs);
      }
      for (std::size_t i = 0; i < requests_.size(); ++i) {
        EXPECT_TRUE(std::ranges::equal(actual[i].tree.tokens(), expected[i].tree.tokens()))
            << "round " << round << ", request " << i;
        EXPECT_TRUE(std::ranges::equal(actual[i].tree.parents(), expected[i].tree.parents()));
        EXPECT_EQ(drafting_[1].sessions[i]->num_cells().all, drafting_[0].sessions[i]->num_cells().all);
        if (round > 0) num_tokens += actual[i].tree.size();
        const auto drafted = expected[i].tree.tokens();
        const std::size_t kept = round % 3 == 1 ? drafted.size() : random_() % (drafted.size() + 1);
        requests_[i].tokens.insert(requests_[i].tokens.end(), drafted.begin(),
                                   drafted.begin() + static_cast<std::ptrdiff_t>(kept));
        requests_[i].tokens.push_back(random_token());
      }
      EXPECT_EQ(cells_of(drafting_[1]), cells_of(drafting_[0])) << "round " << round;
    }
    return num_tokens;
  }

  std::unique_ptr<model::transformer> model_;
  std::unique_ptr<pass_by_pass> by_passes_;
  drafting drafting_[2]; ///< pass by pass, and in chains
  std::deque<drafted_request> requests_;

 private:
  std::vector<std::byte> bytes_;
  std::optional<model::gguf_file> file_;
};

TEST_P(draft_chains, of_a_greedy_request_are_those_of_passes) {
  add_request(9, {.temperature = 0});
  EXPECT_EQ(expect_equal_drafts(5), 16U);
}

/// Longer ones, of smaller models.
class draft_chains_of_many : public draft_chains {};

TEST_P(draft_chains_of_many, of_several_requests_are_those_of_passes) {
  add_request(7, {.temperature = 0});
  add_request(3, {.temperature = 1, .seed = 11}).draft_length = 3;
  add_request(11, {.temperature = 0.7F, .min_p = 0.02F, .seed = 5}).draft_length = 2;
  sampling_params penalised{.temperature = 0.8F, .seed = 6};
  penalised.repetition_penalty = 1.3F, penalised.presence_penalty = 0.5F, penalised.frequency_penalty = 0.7F;
  penalised.logit_bias = {{token_id{40}, 3.0F}, {token_id{41}, -100.0F}};
  add_request(2, penalised);
  stop_params late;
  late.min_tokens = 4;
  for (std::int32_t t = 0; t < 200; t += 2) late.stop_ids.emplace_back(t);
  add_request(5, {.temperature = 1, .seed = 9}, late).draft_length = 5;
  add_request(4, {.temperature = 1.5F, .top_k = 30, .top_p = 0.9F, .min_p = 0.01F, .seed = 8});
  EXPECT_EQ(expect_equal_drafts(4), 3U * (4 + 3 + 2 + 4 + 5 + 4));
}

TEST_P(draft_chains_of_many, over_several_splits_are_those_of_passes) {
  add_request(120, {.temperature = 1, .seed = 3}).draft_length = 6; // reaches a second split
  EXPECT_EQ(expect_equal_drafts(3), 12U);
}

TEST_P(draft_chains_of_many, of_the_likeliest_tokens_serve_rules_that_weigh_probabilities) {
  for (const bool in_chains : {false, true}) make_drafting(in_chains, true);
  add_request(6, {.temperature = 1, .seed = 3}).rule = verification_rule::rejection;
  add_request(4, {.temperature = 0.5F, .seed = 4});
  EXPECT_EQ(expect_equal_drafts(3), 16U);
}

/// One model is enough for what does not depend on arithmetic.
class draft_chain_limits : public draft_chains {
 protected:
  std::uint32_t num_chains_of_a_round() {
    const auto before = num_calls("cudaLaunchCooperativeKernel");
    const auto drafts = propose(drafting_[1]);
    for (const draft& one : drafts) EXPECT_FALSE(one.tree.empty());
    for (std::size_t i = 0; i < drafts.size(); ++i) requests_[i].tokens.push_back(random_token());
    return before ? *num_calls("cudaLaunchCooperativeKernel") - *before : 0;
  }
};

TEST_P(draft_chain_limits, passes_make_what_chains_do_not) {
  if (!num_calls("cudaLaunchKernel")) GTEST_SKIP() << "nobody counts launches";
  drafted_request& request = add_request(8, {.temperature = 1, .seed = 3});
  EXPECT_EQ(num_chains_of_a_round(), 0U) << "a prompt";
  EXPECT_EQ(num_chains_of_a_round(), 1U);
  request.rule = verification_rule::rejection;
  EXPECT_EQ(num_chains_of_a_round(), 0U) << "its probabilities are wanted";
  request.rule = verification_rule::coupled;
  EXPECT_EQ(num_chains_of_a_round(), 1U);
  request.pipeline = sampling::pipeline({.temperature = 1, .top_p = 0.9F}, {});
  EXPECT_EQ(num_chains_of_a_round(), 0U) << "devices cut nothing off by mass alone";
  request.pipeline = sampling::pipeline({.temperature = 1, .top_k = 40, .top_p = 0.9F}, {});
  EXPECT_EQ(num_chains_of_a_round(), 1U);
  request.pipeline = sampling::pipeline({.temperature = 0}, {});
  while (requests_.size() < most_requests) add_request(3, {.temperature = 0});
  num_chains_of_a_round(); // prompts; the first is a chain
  EXPECT_EQ(num_chains_of_a_round(), 0U) << "too many requests";
}

TEST_P(draft_chain_limits, a_launch_that_fails_fails_the_program_and_the_next_draft_begins_anew) {
  if (!num_calls("cudaLaunchKernel")) GTEST_SKIP() << "a device cannot be made to fail";
  add_request(8, {.temperature = 0});
  num_chains_of_a_round();
  fail_next("cudaLaunchCooperativeKernel");
  EXPECT_TRUE(propose(drafting_[1], true).at(0).tree.empty());
  EXPECT_EQ(drafting_[1].sessions[0]->num_cells().all, 0U) << "which cells were written is unknown";
  const auto expected = propose(drafting_[0]), actual = propose(drafting_[1]); // its prompt again
  EXPECT_TRUE(std::ranges::equal(actual[0].tree.tokens(), expected[0].tree.tokens()));
}

INSTANTIATE_TEST_SUITE_P(llama, draft_chain_limits,
                         testing::Values(std::tuple(architecture::llama, tensor_type::q4_0, kv_type::f16)));

std::string name_of(const testing::TestParamInfo<std::tuple<architecture, tensor_type, kv_type>>& test) {
  return std::string(to_string(std::get<0>(test.param))) + "_" +
         std::string(device::traits_of(std::get<1>(test.param))->name);
}

const auto small_models = testing::Values(std::tuple(architecture::llama, tensor_type::q8_0, kv_type::f16),
                                          std::tuple(architecture::qwen2, tensor_type::q4_0, kv_type::q8),
                                          std::tuple(architecture::qwen3, tensor_type::bf16, kv_type::bf16),
                                          std::tuple(architecture::granite, tensor_type::q4_0, kv_type::f16),
                                          std::tuple(architecture::mistral3, tensor_type::q4_0, kv_type::f16),
                                          std::tuple(architecture::olmo2, tensor_type::q4_0, kv_type::f16),
                                          std::tuple(architecture::gemma3, tensor_type::q4_1, kv_type::f32));

INSTANTIATE_TEST_SUITE_P(small_models, draft_chains, small_models, name_of);
INSTANTIATE_TEST_SUITE_P(small_models, draft_chains_of_many, small_models, name_of);
INSTANTIATE_TEST_SUITE_P(wide_model, draft_chains,
                         testing::Values(std::tuple(architecture::llama, tensor_type::q6_k, kv_type::f16),
                                         std::tuple(architecture::qwen3, tensor_type::f8_e4m3, kv_type::q8)),
                         name_of);

} // namespace
} // namespace paceline::gpu

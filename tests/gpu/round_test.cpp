// Rounds of a tiny model on a GPU, which decides most requests itself, give the tokens, acceptance and
// log-probabilities of the same rounds on the CPU, where the host decides all.
#include "runtime/model/loader/gguf/gguf_model.hpp"
#include "runtime/rounds/admit.hpp"
#include "runtime/rounds/round_runner.hpp"
#include "runtime/scheduling/committed_log.hpp"
#include "runtime/scheduling/request_terms.hpp"
#include "tests/gpu/tested_device.hpp"
#include "tests/support/cpu_model.hpp"
#include "tests/support/made_requests.hpp"
#include "tests/support/tiny_model.hpp"

#include <map>

namespace paceline::gpu {
namespace {

using rounds::round_runner;
using scheduling::admitted_request;

constexpr std::uint32_t block_size = 4, blocks_each = 10, context_length = 40;

/// Proposes a tree below the last token that is often right, because it knows the answers.
class informed_drafter final : public speculation::drafter {
 public:
  informed_drafter(bool as_tree, std::uint32_t top_tokens) : as_tree_(as_tree) {
    traits_.name = "informed";
    traits_.top_tokens = top_tokens;
  }
  const speculation::drafter_traits& traits() const noexcept override { return traits_; }
  std::unique_ptr<speculation::drafter_session> open(request_id) override {
    return std::make_unique<speculation::drafter_session>();
  }
  std::uint32_t max_nodes(std::uint32_t draft_length) const noexcept override { return 3 * draft_length; }

  void propose(device::ops&, model::kv_storage*, std::span<speculation::draft_task> tasks) override {
    for (auto& task : tasks) {
      const auto& answer = answers[task.request];
      std::int32_t parent = speculation::token_tree::root;
      for (std::uint32_t i = 0; i < task.draft_length; ++i) {
        const std::size_t at = task.tokens.size() + i;
        token_id best = at < answer.size() ? answer[at] : token_id{7};
        if (at % 5 == 0) best = token_id{11}; // wrong at times
        if (as_tree_ && task.result.tree.size() + 3 <= task.max_nodes) {
          task.result.tree.add(token_id{3}, parent);
          task.result.tree.add(best, parent); // a duplicate, whose second branch continues
        }
        parent = task.result.tree.add(best, parent);
      }
    }
  }

  std::map<request_id, std::vector<token_id>> answers; ///< complete texts

 private:
  speculation::drafter_traits traits_;
  bool as_tree_;
};

/// The results of a request.
struct outcome {
  std::vector<token_id> tokens;
  std::vector<token_logprob> logprobs, prompt_logprobs;
  std::uint64_t num_draft = 0, num_accepted = 0;
};

std::vector<float> values_of(std::span<const token_logprob> from) {
  std::vector<float> values;
  for (const auto& one : from) {
    values.push_back(one.logprob);
    for (const auto& [token, logprob] : one.top) values.push_back(logprob);
  }
  return values;
}

class gpu_rounds : public gpu_test {
 protected:
  void SetUp() override {
    gpu_test::SetUp();
    if (IsSkipped()) return;
    bytes_ = test::make_tiny_gguf({.type = device::tensor_type::q4_0}).build();
    file_.emplace(*model::gguf_file::parse(bytes_, "tiny.gguf"));
    here_.emplace(*file_, test::cpu_model_options{});
    const auto config = *model::read_gguf_config(*file_);
    const auto source = *model::read_gguf_weights(*file_, config);
    there_ = *model::load_transformer(config, source, gpu_->weights(), gpu_->buffers(),
                                      {.kv_type = kv_type::f16, .num_threads = 1, .progress = {}});
  }
  void TearDown() override {
    stream_.reset();
    there_.reset();
    gpu_test::TearDown();
  }

  /// Runs all requests together to their ends, on the GPU or on the CPU.
  std::vector<outcome> answers(bool on_gpu, std::span<const generation_request> requests,
                               informed_drafter* drafter) {
    const model::language_model& target = on_gpu ? *there_ : here_->get();
    const auto kv =
        target.make_kv_storage(blocks_each * static_cast<std::uint32_t>(requests.size()), block_size);
    const steady_clock time;
    rounds::round_resources resources;
    resources.target = &target, resources.kv = kv.get(), resources.time = &time;
    resources.drafters = {nullptr, drafter};
    resources.context_length = context_length;
    round_runner runner(resources);
    std::vector<admitted_request> running;
    for (std::size_t i = 0; i < requests.size(); ++i)
      running.push_back(rounds::admit(request_id{i}, requests[i], context_length, nullptr, time.now()));
    std::vector<outcome> out(requests.size());
    for (std::uint64_t round = 1; round < 60; ++round) {
      scheduling::round_plan plan;
      plan.round = round_id{round};
      for (std::size_t i = 0; i < running.size(); ++i)
        if (running[i].log->finish() == finish_reason::none)
          plan.items.push_back(item_for(running[i], static_cast<std::uint32_t>(i), drafter != nullptr));
      if (plan.items.empty()) break;
      scheduling::round_result result;
      const auto work = [&](device::ops& ops) { runner.run(ops, plan, {}, result); };
      on_gpu ? run(work) : here_->run(work);
      EXPECT_FALSE(result.failure) << result.failure->message();
      gather(result, out);
    }
    for (std::size_t i = 0; i < running.size(); ++i)
      out[i].tokens.assign(running[i].log->tokens().begin(), running[i].log->tokens().end());
    return out;
  }

 private:
  static scheduling::plan_item item_for(const admitted_request& of, std::uint32_t number, bool drafts) {
    scheduling::plan_item item;
    item.request = of;
    for (std::uint32_t b = 0; b < blocks_each; ++b) item.blocks.emplace_back(number * blocks_each + b);
    item.max_rows = 3; // prompts in parts
    item.drafter = drafts ? drafter_index{1} : plain_decoding;
    item.draft_length = drafts ? 3 : 0;
    item.max_nodes = drafts ? 9 : 0;
    return item;
  }
  static void gather(const scheduling::round_result& result, std::vector<outcome>& out) {
    for (const auto& item : result.items) {
      out[item.request.value].num_draft += item.num_draft;
      out[item.request.value].num_accepted += item.num_accepted;
    }
    for (const auto& event : result.events) {
      EXPECT_NE(event.finish, finish_reason::error) << event.failure->message();
      auto& to = out[event.request.value];
      to.logprobs.insert(to.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
      to.prompt_logprobs.insert(to.prompt_logprobs.end(), event.prompt_logprobs.begin(),
                                event.prompt_logprobs.end());
    }
  }

  std::vector<std::byte> bytes_;
  std::optional<model::gguf_file> file_;
  std::optional<test::cpu_model> here_;
  std::unique_ptr<model::transformer> there_;
};

TEST_F(gpu_rounds, say_what_the_cpu_says_whoever_decides) {
  const auto requests = testing::requests_of_all_kinds();
  const auto plain = answers(false, requests, nullptr);
  enum class drafts { none, chains, trees, looked_at };
  for (const auto how : {drafts::none, drafts::chains, drafts::trees, drafts::looked_at}) {
    informed_drafter drafter(how == drafts::trees, how == drafts::looked_at ? 2 : 0);
    for (std::size_t i = 0; i < plain.size(); ++i) drafter.answers[request_id{i}] = plain[i].tokens;
    auto* const used = how == drafts::none ? nullptr : &drafter;
    const auto expected = answers(false, requests, used), actual = answers(true, requests, used);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(actual[i].tokens, expected[i].tokens)
          << "request " << i << " drafts " << static_cast<int>(how);
      EXPECT_EQ(actual[i].num_draft, expected[i].num_draft) << "request " << i;
      EXPECT_EQ(actual[i].num_accepted, expected[i].num_accepted) << "request " << i;
      EXPECT_EQ(values_of(actual[i].logprobs), values_of(expected[i].logprobs)) << "request " << i;
      EXPECT_EQ(values_of(actual[i].prompt_logprobs), values_of(expected[i].prompt_logprobs))
          << "request " << i;
    }
    EXPECT_EQ(actual[0].num_accepted > 0, used != nullptr);
  }
}

TEST_F(gpu_rounds, move_the_cells_of_accepted_trees_where_they_are_decided) {
  const auto by_device = testing::requests_for_the_device(), by_host = testing::requests_for_the_host();
  for (const auto* const requests : {&by_device, &by_host}) {
    const auto plain = answers(false, *requests, nullptr);
    informed_drafter drafter(true, 0);
    for (std::size_t i = 0; i < plain.size(); ++i) drafter.answers[request_id{i}] = plain[i].tokens;
    const auto copies_before = num_launches(kernel_id::kv_copy).value_or(0);
    const auto commits_before = num_launches(kernel_id::kv_commit).value_or(0);
    const auto drafted = answers(true, *requests, &drafter);
    for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_GT(drafted[i].num_accepted, 0U) << "request " << i;
    if (!num_launches(kernel_id::kv_copy)) continue;
    const auto num_copies = *num_launches(kernel_id::kv_copy) - copies_before;
    const auto num_commits = *num_launches(kernel_id::kv_commit) - commits_before;
    EXPECT_EQ(num_copies > 0, requests == &by_host) << "of the host";
    EXPECT_EQ(num_commits > 0, requests == &by_device) << "of the device";
  }
}

} // namespace
} // namespace paceline::gpu

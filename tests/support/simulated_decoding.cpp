#include "tests/support/simulated_decoding.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/ops.hpp"

#include <algorithm>
#include <limits>
#include <memory>

namespace paceline::test {

namespace {

using speculation::token_tree;

struct host_ops final : device::ops {
  std::string_view level() const noexcept override { return "test"; }
};

constexpr std::uint32_t block_size = 4; ///< small, so that drafts cross block boundaries

class sequence {
 public:
  sequence(const generation_request& request, request_id id, speculation::drafter& drafter,
           std::uint32_t first_block, std::uint32_t num_blocks)
      : pipeline(request.sampling, request.stop), tokens(request.prompt), id_(id), request_(&request),
        session_(drafter.open(id)) {
    counts.add_prompt(request.prompt);
    for (std::uint32_t i = 0; i < num_blocks; ++i) blocks.push_back(block_id{first_block + i});
  }

  bool done() const { return output.tokens.size() >= request_->stop.max_tokens; }
  std::uint32_t length() const { return static_cast<std::uint32_t>(tokens.size()); }
  std::uint32_t output_index() const { return static_cast<std::uint32_t>(output.tokens.size()); }

  speculation::draft_task task(std::uint32_t default_length, const model::kv_storage& kv) const {
    const std::uint32_t remaining = request_->stop.max_tokens - output_index();
    speculation::draft_task task{};
    task.request = id_;
    task.tokens = tokens;
    task.sampling = &pipeline;
    task.counts = &counts;
    task.prompt_length = static_cast<std::uint32_t>(request_->prompt.size());
    task.rule = request_->speculation.rule;
    task.draft_length = std::min(request_->speculation.draft_length.value_or(default_length), remaining - 1);
    task.max_nodes = token_tree::max_nodes;
    task.blocks = blocks;
    task.target_cells = {&kv, blocks, kv_length};
    task.session = session_.get();
    return task;
  }

  /// Rows of the committed tokens without KV, and of the draft; `first_row` is their position in the batch.
  void add_rows(std::uint32_t index, const token_tree& tree, std::vector<device::batch_entry>& rows,
                std::vector<kv_slot>& paths) {
    for (std::uint32_t at = kv_length; at < length(); ++at)
      rows.push_back(
          {.token = tokens[at], .position = token_position{at}, .slot = kv_slot{at}, .sequence = index});
    root_row = static_cast<std::uint32_t>(rows.size()) - 1;
    const bool chain = tree.is_chain();
    for (std::uint32_t node = 0; node < tree.size(); ++node) {
      device::batch_entry row{.token = tree.tokens()[node],
                              .position = token_position{length() + tree.depths()[node]},
                              .slot = kv_slot{length() + node},
                              .sequence = index};
      if (!chain) {
        row.path_begin = static_cast<std::uint32_t>(paths.size());
        for (const std::int32_t above : tree.path_to(static_cast<std::int32_t>(node)))
          paths.push_back(kv_slot{length() + static_cast<std::uint32_t>(above)});
        row.path_length = static_cast<std::uint32_t>(paths.size()) - row.path_begin;
      }
      rows.push_back(row);
    }
  }

  void commit(const speculation::draft& draft, const speculation::verdict& verdict, device::ops& ops,
              model::kv_storage& kv) {
    PACELINE_CHECK(!verdict.hopeless, "the hash model has finite logits");
    kv_length = length();
    for (const std::int32_t node : verdict.accepted_path) { // compaction: the accepted path becomes linear
      const kv_slot from{length() + static_cast<std::uint32_t>(node) - output_of_round_};
      copy_cell(ops, kv, from.value, kv_length++);
      append(draft.tree.tokens()[static_cast<std::size_t>(node)]);
      ++output_of_round_;
    }
    output_of_round_ = 0;
    append(verdict.next);
    ++output.num_rounds;
    output.num_draft_tokens += draft.tree.size();
    output.num_accepted_tokens += static_cast<std::uint32_t>(verdict.accepted_path.size());
    output.num_empty_drafts += draft.tree.empty() ? 1 : 0;
  }

  sampling::pipeline pipeline;
  sampling::token_counts counts;
  std::vector<token_id> tokens;
  std::vector<block_id> blocks;
  std::uint32_t kv_length = 0;
  std::uint32_t root_row = 0;
  simulated_output output;

 private:
  void append(token_id token) {
    tokens.push_back(token);
    counts.add_output(token);
    output.tokens.push_back(token);
  }
  void copy_cell(device::ops& ops, model::kv_storage& kv, std::uint32_t from, std::uint32_t to) {
    const device::kv_copy copy{.from_block = blocks[from / block_size],
                               .from_offset = from % block_size,
                               .to_block = blocks[to / block_size],
                               .to_offset = to % block_size,
                               .num_cells = 1};
    if (from != to) kv.copy(ops, {&copy, 1});
  }

  request_id id_;
  const generation_request* request_;
  std::unique_ptr<speculation::drafter_session> session_;
  std::uint32_t output_of_round_ = 0;
};

/// One target pass over all running sequences and their drafts, then a verdict for each.
void verify_all(const model::hash_model& target, model::kv_storage& kv, std::span<sequence*> running,
                std::span<const speculation::draft_task> tasks, std::span<const speculation_params> rules) {
  host_ops ops;
  std::vector<device::batch_entry> rows;
  std::vector<kv_slot> paths;
  std::vector<device::sequence_kv> sequences;
  for (std::size_t i = 0; i < running.size(); ++i) {
    running[i]->add_rows(static_cast<std::uint32_t>(i), tasks[i].result.tree, rows, paths);
    sequences.push_back({.blocks = running[i]->blocks});
  }
  const std::size_t vocab = target.info().vocab_size;
  std::vector<std::uint32_t> all_rows(rows.size());
  for (std::uint32_t i = 0; i < all_rows.size(); ++i) all_rows[i] = i;
  std::vector<float> logits(rows.size() * vocab);
  target.forward(ops, {.rows = rows, .sequences = sequences, .paths = paths}, kv,
                 {.logit_rows = all_rows, .logits = logits, .taps = {}});
  for (std::size_t i = 0; i < running.size(); ++i) {
    sequence& one = *running[i];
    const auto row_of = [&](std::int32_t node) {
      return one.root_row + static_cast<std::uint32_t>(node + 1);
    };
    const auto verdict = speculation::verify(
        rules[i], tasks[i].result,
        {.sampling = &one.pipeline,
         .counts = &one.counts,
         .next_position = token_position{one.length()},
         .output_index = one.output_index()},
        [&](std::int32_t node) { return std::span(logits).subspan(row_of(node) * vocab, vocab); });
    one.commit(tasks[i].result, verdict, ops, kv);
  }
}

} // namespace

std::vector<token_id> decode_plainly(const model::hash_model& target, const generation_request& request) {
  const sampling::pipeline pipeline(request.sampling, request.stop);
  sampling::token_counts counts;
  counts.add_prompt(request.prompt);
  std::vector<token_id> tokens = request.prompt;
  std::vector<token_id> output;
  while (output.size() < request.stop.max_tokens) {
    std::vector<float> logits = target.logits_after(tokens);
    if (request.constraint) // by another way than `apply_mask`
      for (std::size_t t = 0; t < logits.size(); ++t) {
        const token_id one{static_cast<std::int32_t>(t)};
        if (request.constraint->begin()->num_allowed(output, {}, {&one, 1}) == 0)
          logits[t] = -std::numeric_limits<float>::infinity();
      }
    const token_id token = pipeline.process_and_sample(
        logits, {.committed = &counts,
                 .position = token_position{static_cast<std::uint32_t>(tokens.size())},
                 .output_index = static_cast<std::uint32_t>(output.size())});
    tokens.push_back(token);
    output.push_back(token);
    counts.add_output(token);
  }
  return output;
}

std::vector<simulated_output> decode_speculatively(const model::hash_model& target,
                                                   speculation::drafter& drafter,
                                                   std::span<const generation_request> requests,
                                                   std::uint64_t first_id) {
  host_ops ops;
  std::uint32_t blocks_each = 0;
  for (const auto& request : requests)
    blocks_each = std::max(blocks_each, (static_cast<std::uint32_t>(request.prompt.size()) +
                                         request.stop.max_tokens + token_tree::max_nodes) /
                                                block_size +
                                            1);
  const auto num_blocks = blocks_each * static_cast<std::uint32_t>(requests.size());
  const auto kv = target.make_kv_storage(num_blocks, block_size, drafter.traits().taps);
  const auto draft_kv =
      drafter.own_model() == nullptr ? nullptr : drafter.own_model()->make_kv_storage(num_blocks, block_size);
  std::vector<std::unique_ptr<sequence>> sequences;
  for (std::uint32_t i = 0; i < requests.size(); ++i)
    sequences.push_back(std::make_unique<sequence>(requests[i], request_id{first_id + i}, drafter,
                                                   i * blocks_each, blocks_each));
  for (;;) {
    std::vector<sequence*> running;
    std::vector<speculation::draft_task> tasks;
    std::vector<speculation_params> rules;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      if (sequences[i]->done()) continue;
      running.push_back(sequences[i].get());
      tasks.push_back(sequences[i]->task(drafter.traits().default_draft_length, *kv));
      rules.push_back(requests[i].speculation);
    }
    if (running.empty()) break;
    drafter.propose(ops, draft_kv.get(), tasks);
    verify_all(target, *kv, running, tasks, rules);
  }
  std::vector<simulated_output> outputs;
  for (auto& one : sequences) outputs.push_back(std::move(one->output));
  return outputs;
}

} // namespace paceline::test

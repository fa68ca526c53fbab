#include "runtime/kv/pool_manager.hpp"
#include "tests/runtime/kv/shadow_device.hpp"

#include <gtest/gtest.h>

#include <tuple>

namespace paceline::kv {
namespace {

/// One round after `length` final slots, with `num_drafts` drafts of which the first `num_accepted` are kept.
struct round_case {
  std::uint32_t length;
  std::uint32_t num_drafts;
  std::uint32_t num_accepted;
  std::uint32_t block_size;
};

std::vector<token_id> sequence(std::uint32_t num, std::int32_t first = 0) {
  std::vector<token_id> out;
  for (std::uint32_t i = 0; i < num; ++i) out.push_back(token_id{first + static_cast<std::int32_t>(i)});
  return out;
}

/// Enqueues a pass over `tokens` from `slot` on and runs it.
void compute(shadow_device& device, const lease& l, std::span<const token_id> tokens, std::uint32_t slot,
             std::uint64_t before) {
  std::vector<shadow_device::write> writes;
  for (const auto token : tokens) {
    before = next_content(before, token, false);
    writes.push_back({device.cell_of(l.blocks, slot++), before});
  }
  device.submit({}, std::move(writes));
  device.complete_one();
}

std::uint64_t content_of(std::span<const token_id> tokens) {
  std::uint64_t content = 1;
  for (const auto token : tokens) content = next_content(content, token, false);
  return content;
}

/// Empty if the round leaves the request in the state that plain decoding would have reached.
std::optional<std::string> play(const round_case& c) {
  const auto num_blocks = (c.length + c.num_drafts + 1) / c.block_size + 2;
  pool_manager manager(num_blocks, make_block_hasher());
  const auto pool = *manager.add_pool({.name = "p",
                                       .num_blocks = num_blocks,
                                       .block_size = c.block_size,
                                       .block_bytes = 1,
                                       .slab_blocks = 1});
  shadow_device device(num_blocks, c.block_size);

  // A prompt whose last token has no cell yet, like the recovered token of any round.
  auto tokens = sequence(c.length + 1);
  auto l = manager.acquire(pool, request_id{1}, {tokens, c.length, {}, c.length + 1 + c.num_drafts})->lease;
  device.lease_fresh(l.blocks);
  compute(device, l, std::span(tokens).first(c.length), 0, 1);
  if (!manager.commit(l.key, {}, c.length)) return "the prompt was not committed";

  // The round: the token without a cell, then drafts; one recovered or bonus token is last.
  auto rows = std::vector{tokens.back()};
  for (const auto draft : sequence(c.num_drafts, 1000)) rows.push_back(draft);
  compute(device, l, rows, c.length, content_of(std::span(tokens).first(c.length)));
  auto committed = std::vector(rows.begin() + 1, rows.begin() + 1 + c.num_accepted);
  committed.push_back(token_id{5000});
  tokens.insert(tokens.end(), committed.begin(), committed.end());
  const auto length = c.length + 1 + c.num_accepted;
  if (!manager.commit(l.key, committed, length)) return "the round was not committed";
  if (!manager.rollback(l.key, length, {stream_id{1}, device.submitted()})) return "the rollback was refused";
  manager.on_watermark(stream_id{1}, device.completed());

  const auto needed = (length + c.block_size - 1) / c.block_size;
  l = *manager.reserve(l.key, 0);
  if (l.blocks.size() != needed) return "holds " + std::to_string(l.blocks.size()) + " blocks";
  if (manager.usage(pool).num_active != needed) return "blocks of rejected tokens were not returned";

  // Replay: the recovered token is computed in the next round; every cell equals that of a run without
  // drafts.
  {
    const auto slot = length;
    const auto longer = manager.reserve(l.key, slot + 1);
    if (!longer) return longer.error().message();
    device.lease_fresh(std::span(longer->blocks).subspan(l.blocks.size()));
    l = *longer;
    compute(device, l, std::span(tokens).subspan(slot, 1), slot, content_of(std::span(tokens).first(slot)));
    if (!manager.commit(l.key, {}, slot + 1)) return "the replay was not committed";
  }
  for (std::uint32_t i = 0; i <= length; ++i)
    if (device.content(l.blocks[i / c.block_size], i % c.block_size) !=
        content_of(std::span(tokens).first(i + 1)))
      return "slot " + std::to_string(i) + " differs from a run without drafts";
  if (auto ok = manager.check_invariants(); !ok) return ok.error().message();
  return std::nullopt;
}

TEST(rollback_test, every_rejection_leaves_the_request_as_plain_decoding_would) {
  std::uint32_t num_cases = 0;
  for (const std::uint32_t block_size : {1, 2, 4, 8, 16})
    for (std::uint32_t length = 1; length <= 40; ++length)
      for (std::uint32_t num_drafts = 0; num_drafts <= 8; ++num_drafts)
        for (std::uint32_t num_accepted = 0; num_accepted <= num_drafts; ++num_accepted, ++num_cases) {
          const auto problem = play({length, num_drafts, num_accepted, block_size});
          ASSERT_FALSE(problem) << *problem << "; length " << length << ", drafts " << num_drafts
                                << ", accepted " << num_accepted << ", block size " << block_size;
        }
  EXPECT_EQ(num_cases, 40U * 45U * 5U);
}

} // namespace
} // namespace paceline::kv

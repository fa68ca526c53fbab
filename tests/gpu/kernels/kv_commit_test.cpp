// Moving the cells of accepted paths, on a GPU and on the CPU device, against copies through a buffer: same
// bits, and nothing else is changed.
#include "runtime/cpu/cpu_device.hpp"
#include "runtime/device/op_kv_commit.hpp"
#include "tests/gpu/kernels/kv_pools.hpp"

#include <algorithm>
#include <numeric>

namespace paceline::gpu {
namespace {

constexpr std::uint32_t num_blocks = 70, num_layers = 3;

/// A draft over a sequence of its own, and the chosen node.
struct drafted_path {
  std::uint32_t base = 0;
  std::vector<std::int32_t> parents;
  std::int32_t place = -1;
};

std::vector<std::uint32_t> nodes_to(const drafted_path& draft) {
  std::vector<std::uint32_t> nodes;
  for (std::int32_t n = draft.place; n >= 0; n = draft.parents[static_cast<std::size_t>(n)])
    nodes.push_back(static_cast<std::uint32_t>(n));
  std::ranges::reverse(nodes);
  return nodes;
}

drafted_path chain_of(std::uint32_t base, std::int32_t length, std::int32_t place) {
  drafted_path draft{base, {}, place};
  for (std::int32_t n = 0; n < length; ++n) draft.parents.push_back(n - 1);
  return draft;
}

/// `width` siblings per level, of which the last one has children; sources and destinations overlap.
drafted_path ladder_of(std::uint32_t base, std::int32_t width, std::int32_t num_levels) {
  drafted_path draft{base, {}, width * num_levels - 1};
  for (std::int32_t n = 0; n < width * num_levels; ++n) draft.parents.push_back(n / width * width - 1);
  return draft;
}

/// The op's arguments except for the layers and the choice, and the memory that they refer to.
struct prepared_commit {
  prepared_commit(std::span<const drafted_path> paths, std::uint32_t block_size, std::uint32_t seed)
      : drafts(paths.begin(), paths.end()), paged(block_size, num_blocks, seed) {
    std::vector<std::uint32_t> numbers(drafts.size());
    std::iota(numbers.begin(), numbers.end(), 0U);
    std::ranges::reverse(numbers); // choices are identified by number, not by order
    chosen.resize(drafts.size());
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      const auto size = static_cast<std::uint32_t>(drafts[i].parents.size());
      const std::uint32_t sequence = paged.add_sequence(drafts[i].base + size);
      args.push_back({numbers[i], sequence, kv_slot{drafts[i].base}, drafts[i].parents});
      chosen[numbers[i]] = {drafts[i].place, token_id{3}, false, false};
      batch = paged.batch({});
    }
  }
  prepared_commit(const prepared_commit&) = delete;

  std::vector<drafted_path> drafts;
  test::paged_sequences paged;
  std::vector<device::drafted_cells> args;
  std::vector<device::chosen_run> chosen;
  device::row_batch batch;
};

class gpu_kv_commit : public kv_pool_test {
 protected:
  gpu_kv_commit() : kv_pool_test(arithmetic::reference) {}

  /// Trees of all shapes that together fit `num_blocks`.
  std::vector<drafted_path> any_drafts(std::uint32_t block_size) {
    std::vector<drafted_path> all{ladder_of(block_size - 1, 2, 3), chain_of(block_size - 2, 4, 2),
                                  ladder_of(2 * block_size + 1, 3, 4), ladder_of(1, 1, 5)};
    all[3].place = -1;
    for (std::uint32_t i = 0; i < 4; ++i) {
      drafted_path draft{static_cast<std::uint32_t>(random_() % (2 * block_size)), {}, -1};
      const auto size = 1 + static_cast<std::int32_t>(random_() % 20);
      for (std::int32_t n = 0; n < size; ++n) // prefers depth to width
        draft.parents.push_back(std::max(-1, n - 1 - static_cast<std::int32_t>(random_() % 3)));
      draft.place = size - 1 - static_cast<std::int32_t>(random_() % 2);
      all.push_back(std::move(draft));
    }
    return all;
  }

  std::vector<two_pools> full_pools(prepared_commit& commit, const attention_case& c) {
    std::vector<two_pools> pools(num_layers, two_pools(c, num_blocks));
    for (two_pools& pool : pools) fill(pool, commit.paged, c);
    return pools;
  }

  /// The expected contents of `pools`.
  static void carry_out(const prepared_commit& commit, std::vector<two_pools>& pools) {
    for (two_pools& pool : pools) {
      two_pools before = pool;
      for (std::size_t i = 0; i < commit.drafts.size(); ++i) {
        std::uint32_t to = commit.drafts[i].base;
        for (const std::uint32_t node : nodes_to(commit.drafts[i]))
          commit.paged.copy_cell(pool.here(), before.here(), commit.args[i].sequence,
                                 commit.drafts[i].base + node, to++);
      }
    }
  }

  /// Random vectors beside the cells of a pool.
  std::vector<float> vectors_beside(const attention_case& c, std::uint32_t width) {
    return values(std::size_t{num_blocks} * c.block_size * width);
  }
  static void carry_out(const prepared_commit& commit, std::vector<float>& vectors, std::uint32_t width,
                        std::uint32_t block_size) {
    const std::vector<float> before = vectors;
    for (std::size_t i = 0; i < commit.drafts.size(); ++i) {
      std::uint32_t to = commit.drafts[i].base;
      for (const std::uint32_t node : nodes_to(commit.drafts[i])) {
        const auto move = commit.paged.copy_of(commit.args[i].sequence, commit.drafts[i].base + node, to++);
        for (std::uint32_t d = 0; d < width; ++d)
          vectors[(move.to_block.value * block_size + move.to_offset) * width + d] =
              before[(move.from_block.value * block_size + move.from_offset) * width + d];
      }
    }
  }

  /// A commit on the GPU, compared with the reference; from the second time on it is a graph.
  void expect_on_gpu(std::span<const drafted_path> drafts, const attention_case& c,
                     std::uint32_t num_times = 1) {
    const std::size_t first = num_uploads();
    prepared_commit commit(drafts, c.block_size, random_());
    auto pools = full_pools(commit, c);
    std::vector<device::kv_layer> layers;
    for (two_pools& pool : pools) layers.push_back(there(pool));
    const std::uint32_t width = c.num_kv_heads * c.head_dim + 100;
    auto vectors = vectors_beside(c, width);
    const device::cell_vectors beside{upload(vectors), width};
    const device::chosen_run* const chosen = upload(commit.chosen);
    const auto contents = contents_since(first);
    carry_out(commit, pools);
    carry_out(commit, vectors, width, c.block_size);
    for (std::uint32_t time = 0; time < num_times; ++time) {
      restore(first, contents);
      const auto before = num_graph_launches();
      run([&](device::ops& ops) { ops.kv_commit({&commit.batch, layers, chosen, commit.args, beside}); });
      if (before) {
        EXPECT_EQ(*num_graph_launches() - *before, time > 0 ? 1U : 0U) << "time " << time;
      }
      for (std::size_t l = 0; l < pools.size(); ++l) expect_equal(pools[l], layers[l], c);
      EXPECT_EQ(download(beside.values, vectors.size()), vectors) << c;
    }
  }
};

const attention_case commit_cases[] = {
    {3, 3, 64, 16, kv_type::f16, 0, 0}, {4, 4, 20, 4, kv_type::bf16, 0, 0},
    {6, 2, 80, 48, kv_type::f32, 0, 0}, {2, 1, 8, 5, kv_type::q8, 0, 0},
    {2, 2, 512, 16, kv_type::q8, 0, 0}, {6, 2, 20, 5, kv_type::f32, 0, 0},
    {4, 4, 20, 4, kv_type::f16, 0, 0},
};

TEST_F(gpu_kv_commit, moves_accepted_cells_as_through_a_buffer_and_no_others) {
  for (const attention_case& c : commit_cases) expect_on_gpu(any_drafts(c.block_size), c);
}

TEST_F(gpu_kv_commit, moves_paths_of_the_largest_drafts) {
  constexpr auto most = static_cast<std::int32_t>(device::max_draft_nodes);
  drafted_path fan{7, std::vector<std::int32_t>(device::max_draft_nodes, -1), most - 1};
  drafted_path behind = chain_of(3, most, most - 1); // a path of 63 nodes, each moved by one
  behind.parents[1] = -1;
  const std::vector drafts{ladder_of(3, 2, most / 2), chain_of(0, most, most - 1), std::move(fan), behind};
  expect_on_gpu(drafts, {2, 2, 20, 16, kv_type::f16, 0, 0});
}

TEST_F(gpu_kv_commit, does_as_a_graph_what_it_does_without) {
  for (std::int32_t width = 1; width < 5; ++width) {
    const std::vector drafts{ladder_of(1 + 2 * static_cast<std::uint32_t>(width), 2, 3),
                             ladder_of(5, width, 2)};
    expect_on_gpu(drafts, {2, 2, 20, 4, kv_type::q8, 0, 0}, 3);
  }
}

TEST_F(gpu_kv_commit, is_made_of_copies_on_the_cpu) {
  const auto device = *cpu::cpu_device::make({.partitions = {{}}, .level = {}});
  const auto stream = device->make_stream("test", 0);
  for (const attention_case& c : commit_cases) {
    prepared_commit commit(any_drafts(c.block_size), c.block_size, random_());
    auto pools = full_pools(commit, c);
    auto expected = pools;
    std::vector<device::kv_layer> layers;
    for (two_pools& pool : pools) layers.push_back(pool.here());
    auto vectors = vectors_beside(c, 10), expected_vectors = vectors;
    const auto done = stream->submit("commit", {}, [&](device::ops& ops) {
      ops.kv_commit({&commit.batch, layers, commit.chosen.data(), commit.args, {vectors.data(), 10}});
    });
    done.wait();
    ASSERT_FALSE(done.failure()) << done.failure()->message();
    carry_out(commit, expected);
    carry_out(commit, expected_vectors, 10, c.block_size);
    EXPECT_EQ(vectors, expected_vectors) << c;
    for (std::size_t l = 0; l < pools.size(); ++l) {
      EXPECT_EQ(pools[l].keys(), expected[l].keys()) << c;
      EXPECT_EQ(pools[l].values(), expected[l].values()) << c;
      EXPECT_EQ(std::memcmp(pools[l].scales().data(), expected[l].scales().data(),
                            pools[l].scales().size() * sizeof(float)),
                0)
          << c;
    }
  }
}

TEST_F(gpu_kv_commit, takes_the_place_from_what_the_device_has_just_chosen) {
  // Token 1 is best in every row, and the ladder's last siblings have it, so the whole path is accepted.
  const attention_case c{2, 2, 20, 4, kv_type::f16, 0, 0};
  prepared_commit commit(std::vector{ladder_of(6, 2, 3), ladder_of(2, 3, 2)}, c.block_size, random_());
  auto pools = full_pools(commit, c);
  std::vector<device::kv_layer> layers;
  for (two_pools& pool : pools) layers.push_back(there(pool));
  const std::vector<token_id> tokens[] = {
      {token_id{0}, token_id{1}, token_id{0}, token_id{1}, token_id{0}, token_id{1}},
      {token_id{2}, token_id{0}, token_id{1}, token_id{2}, token_id{0}, token_id{1}}};
  std::vector<device::token_choice> requests(2);
  std::vector<float> logits;
  for (std::uint32_t i = 0; i < 2; ++i) {
    requests[i].first_row = i * 7;
    requests[i].temperature = 0;
    requests[i].draft_tokens = tokens[i];
    requests[i].parents = commit.drafts[i].parents;
    commit.args[i].choice = i;
    for (std::uint32_t row = 0; row < 7; ++row) logits.insert(logits.end(), {0, 5, 1});
  }
  float* const logits_there = upload(logits);
  std::vector<device::chosen_run> out(2);
  run([&](device::ops& ops) {
    const device::chosen_run* const chosen = ops.choose({logits_there, 14, 3, requests, out});
    ops.kv_commit({&commit.batch, layers, chosen, commit.args});
    ops.deliver();
  });
  for (std::uint32_t i = 0; i < 2; ++i) EXPECT_EQ(out[i].place, 5);
  carry_out(commit, pools);
  for (std::size_t l = 0; l < pools.size(); ++l) expect_equal(pools[l], layers[l], c);
}

TEST_F(gpu_kv_commit, refuses_arguments_that_do_not_fit) {
  const attention_case c{2, 2, 20, 4, kv_type::f16, 0, 0};
  prepared_commit commit(std::vector{ladder_of(2, 2, 3)}, c.block_size, 1); // 8 slots in two blocks
  two_pools pool(c, num_blocks);
  std::vector<device::kv_layer> layers(2, there(pool));
  const device::chosen_run* const chosen = upload(commit.chosen);
  const auto fails = [&](const device::drafted_cells& draft, const char* why) {
    const auto done = stream_->submit("commit", {}, [&](device::ops& ops) {
      ops.kv_commit({&commit.batch, layers, chosen, {&draft, 1}});
    });
    done.wait();
    ASSERT_TRUE(done.failure()) << why;
    EXPECT_NE(done.failure()->message().find(why), std::string::npos) << done.failure()->message();
  };
  auto draft = commit.args[0];
  draft.base = kv_slot{3};
  fails(draft, "is beyond its blocks");
  draft = commit.args[0];
  draft.sequence = 1;
  fails(draft, "cells of sequence 1");
  const std::vector<std::int32_t> later{0}, many(device::max_draft_nodes + 1, -1);
  draft.sequence = 0;
  draft.parents = later;
  fails(draft, "before its parent");
  draft.parents = many;
  fails(draft, "a draft of 65 nodes");
  for (auto& layer : layers) layer.num_blocks = 1;
  fails(commit.args[0], "outside the pool");
  layers[0].num_blocks = num_blocks;
  fails(commit.args[0], "layers of several pools");
}

} // namespace
} // namespace paceline::gpu

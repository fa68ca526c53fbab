// Passes of DFlash and DSpark heads. The results of a block do not depend on other rows, and what a level
// adds depends on the tokens before it. tests/e2e/head_parity.py compares the numbers with a reference.
#include "runtime/model/heads/dflash/dflash_head.hpp"

#include "runtime/model/heads/files/head_loader.hpp"
#include "tests/support/cpu_model.hpp"
#include "tests/support/made_features.hpp"
#include "tests/support/paged_sequences.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/tiny_head.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace paceline::test {
namespace {

constexpr std::uint32_t hidden = 32, vocab = 288, cells_of_block = 4, num_blocks = 24;
constexpr std::uint32_t num_slots = 4, num_levels = 3; // of a block; the first slot gives no token

/// The kind is "dflash", or the kind of the Markov head of a DSpark head.
class dflash_head_test : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    bytes_ = make_tiny_gguf({.num_layers = 8, .hidden_size = hidden}).build();
    auto parsed = model::gguf_file::parse(bytes_, "tiny.gguf");
    if (!parsed) throw std::runtime_error(parsed.error().message());
    file_.emplace(std::move(*parsed));
    target_.emplace(*file_, cpu_model_options{.num_threads = 2, .level = {}, .kv_type = kv_type::f32});
    (is_dspark() ? tiny_head::dspark(hidden, vocab, GetParam()) : tiny_head::dflash(hidden, vocab))
        .write(folder_.path());
    const std::shared_ptr<const model::transformer> target(std::shared_ptr<void>(), &target_->get());
    auto loaded = model::load_draft_head(is_dspark() ? "dspark" : "dflash", folder_.path(), target,
                                         {kv_type::f32, {}}, target_->device(), target_->device());
    ASSERT_TRUE(loaded) << loaded.error().message();
    head_ = *loaded;
    target_kv_ = target_->get().make_kv_storage(num_blocks, cells_of_block, head_->taps());
    make_up(*target_kv_->features());
    kv_ = head_->make_kv_storage(num_blocks, cells_of_block);
    for (int sequence = 0; sequence < 2; ++sequence) paged_.add_sequence(40);
  }

  bool is_dspark() const { return GetParam() != "dflash"; }
  token_id token_at(std::uint32_t sequence, std::uint32_t position) const {
    return token_id{static_cast<std::int32_t>((position * 5 + sequence * 37 + 1) % vocab)};
  }
  std::uint32_t cell(std::uint32_t sequence, std::uint32_t slot) const {
    const device::kv_copy at = paged_.copy_of(sequence, slot, slot);
    return at.from_block.value * cells_of_block + at.from_offset;
  }

  /// Rows of a pass while it is assembled.
  struct pass {
    std::vector<device::batch_entry> rows;
    std::vector<std::uint32_t> cells, levels, logit_rows;
  };

  void add_text(pass& to, std::uint32_t sequence, std::uint32_t begin, std::uint32_t end) const {
    for (device::batch_entry row : paged_.chain_rows(sequence, begin, end)) {
      row.token = token_at(sequence, row.position.value);
      to.cells.push_back(cell(sequence, row.position.value));
      to.levels.push_back(0);
      to.rows.push_back(row);
    }
  }
  /// Adds the block after the first `length` rows of a text.
  void add_block(pass& to, std::uint32_t sequence, std::uint32_t length) const {
    std::uint32_t number = 0;
    for (device::batch_entry row : paged_.block_rows(sequence, length, length + num_slots)) {
      row.token = token_at(sequence, length - 1);
      to.cells.push_back(cell(sequence, length - 1));
      to.levels.push_back(++number);
      if (number >= 2) to.logit_rows.push_back(static_cast<std::uint32_t>(to.rows.size()));
      to.rows.push_back(row);
    }
  }

  struct outcome {
    std::vector<float> logits, confidences;
  };
  outcome run(const pass& of) {
    outcome made{std::vector<float>(of.logit_rows.size() * vocab),
                 std::vector<float>(is_dspark() ? of.logit_rows.size() : 0)};
    target_->run([&](device::ops& ops) {
      head_->forward(ops, paged_.batch(of.rows), {target_kv_->features(), of.cells, of.levels}, kv_.get(),
                     {of.logit_rows, made.logits, 1, made.confidences});
    });
    return made;
  }
  /// The last row of a chain of draft tokens after a block at `length`, in the slots after the block.
  outcome run_chain(std::uint32_t sequence, std::uint32_t length, const std::vector<token_id>& tokens) {
    outcome last;
    std::vector<kv_slot> path;
    for (std::uint32_t depth = 1; depth <= tokens.size(); ++depth) {
      path.push_back(kv_slot{length + num_slots + depth - 1});
      pass level;
      level.rows.push_back({.token = tokens[depth - 1],
                            .position = token_position{length + depth - 1},
                            .slot = path.back(),
                            .sequence = sequence,
                            .path_begin = 0,
                            .path_length = depth});
      level.cells.push_back(cell(sequence, depth == 1 ? length - 1 : path[depth - 2].value));
      level.levels.push_back(depth);
      level.logit_rows.push_back(0);
      last = {std::vector<float>(vocab), std::vector<float>(1)};
      target_->run([&](device::ops& ops) {
        device::row_batch batch = paged_.batch(level.rows);
        batch.paths = path;
        head_->forward(ops, batch, {nullptr, level.cells, level.levels}, kv_.get(),
                       {level.logit_rows, last.logits, 1, last.confidences});
      });
    }
    return last;
  }

  void forget_everything() {
    std::vector<block_id> all;
    for (std::uint32_t b = 0; b < num_blocks; ++b) all.emplace_back(b);
    kv_->poison(all);
  }

  std::vector<std::byte> bytes_;
  std::optional<model::gguf_file> file_;
  std::optional<cpu_model> target_;
  scratch_folder folder_;
  std::shared_ptr<const model::draft_head> head_;
  std::unique_ptr<model::kv_storage> target_kv_, kv_;
  paged_sequences paged_{cells_of_block, num_blocks, 3};
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_P(dflash_head_test, a_block_does_not_depend_on_the_rows_of_its_pass) {
  pass whole;
  add_text(whole, 0, 0, 21);
  add_block(whole, 0, 21);
  const outcome alone = run(whole);
  EXPECT_TRUE(std::ranges::all_of(alone.logits, [](float x) { return std::isfinite(x); }));
  forget_everything();
  for (const auto& [begin, end] : {std::pair{0U, 1U}, std::pair{1U, 15U}, std::pair{15U, 20U}}) {
    pass text;
    add_text(text, 0, begin, end);
    run(text);
  }
  pass mixed; // after three chunks of its text, together with another request
  add_text(mixed, 1, 0, 9);
  add_block(mixed, 1, 9);
  const std::size_t before = mixed.logit_rows.size();
  add_text(mixed, 0, 20, 21);
  add_block(mixed, 0, 21);
  const outcome both = run(mixed);
  EXPECT_TRUE(same_bits(
      alone.logits, {both.logits.begin() + static_cast<std::ptrdiff_t>(before * vocab), both.logits.end()}));
}

TEST_P(dflash_head_test, every_slot_sees_the_whole_text_and_the_newest_token) {
  pass whole;
  add_text(whole, 0, 0, 21);
  add_block(whole, 0, 21);
  const outcome right = run(whole);
  const auto differs = [&](const outcome& other) {
    for (std::size_t level = 0; level < num_levels; ++level)
      if (std::equal(right.logits.begin() + static_cast<std::ptrdiff_t>(level * vocab),
                     right.logits.begin() + static_cast<std::ptrdiff_t>((level + 1) * vocab),
                     other.logits.begin() + static_cast<std::ptrdiff_t>(level * vocab)))
        return false;
    return true;
  };
  pass other = whole;
  for (std::size_t r = 21; r < other.rows.size(); ++r) other.rows[r].token = token_id{99};
  EXPECT_TRUE(differs(run(other)));
  other = whole;
  other.cells[0] = other.cells[1]; // other features of the first position
  EXPECT_TRUE(differs(run(other)));
}

TEST_P(dflash_head_test, a_level_adds_what_the_tokens_before_it_say) {
  if (!is_dspark()) return;
  pass whole;
  add_text(whole, 0, 0, 13);
  add_block(whole, 0, 13);
  run(whole);
  const token_id a{11}, b{200};
  const outcome ab = run_chain(0, 13, {a, b});
  EXPECT_TRUE(same_bits(ab.logits, run_chain(0, 13, {a, b}).logits)) << "what it reads is still there";
  EXPECT_FALSE(same_bits(ab.logits, run_chain(0, 13, {a, a}).logits));
  EXPECT_NE(ab.confidences, run_chain(0, 13, {a, a}).confidences);
  EXPECT_EQ(same_bits(ab.logits, run_chain(0, 13, {b, b}).logits), GetParam() != "rnn")
      << "only a state remembers more than the last token";
  EXPECT_EQ(same_bits(run_chain(0, 13, {b}).logits, run_chain(0, 13, {a, b}).logits), GetParam() == "vanilla")
      << "the slot matters unless the term is the token's alone";
  for (const float confidence : ab.confidences) EXPECT_TRUE(confidence > 0 && confidence < 1);
}

INSTANTIATE_TEST_SUITE_P(kinds, dflash_head_test, ::testing::Values("dflash", "vanilla", "gated", "rnn"),
                         [](const auto& tested) { return tested.param; });

} // namespace
} // namespace paceline::test

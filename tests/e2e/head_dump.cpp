// Runs a target over a text, and a trained head over the target's features. Writes what the head read and
// gave. head_widths.py compares this with the reference.
//
//   head_dump MODEL.gguf KIND HEAD_DIRECTORY TOKENS.bin NUM_DRAFTED OUT.bin
//
// TOKENS.bin has n int32 ids. OUT.bin has float32 values: the features of positions 0 to n - 2, with the
// head's taps in its order; the logits of its rows 0 to n - 2; then for each of NUM_DRAFTED - 1 further rows
// of a chain the token and its logits. The chain begins with the likeliest token of the last row. All KV
// cells are float32.
// A head that fills a block of slots after the text has the logits of its levels instead of both kinds of
// rows. If rows add to the levels (DSpark), the first level is complete, and each further level has what the
// likeliest token of the level above adds to it.
#include "runtime/model/heads/files/head_loader.hpp"
#include "tests/support/cpu_model.hpp"
#include "tests/support/paged_sequences.hpp"
#include "tests/support/token_file.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

namespace paceline::test {
namespace {

constexpr std::uint32_t block_size = 16, chunk = 24; // several passes, as of a long prompt

class dump {
 public:
  dump(cpu_model& target, const model::draft_head& head, std::vector<token_id> tokens,
       std::uint32_t num_drafted)
      : target_(target), head_(head), tokens_(std::move(tokens)),
        num_blocks_(blocks_for(tokens_.size() + head.traits().num_block_rows + num_drafted)),
        paged_(block_size, num_blocks_, 1),
        target_kv_(target.get().make_kv_storage(num_blocks_, block_size, head.taps())),
        kv_(head.make_kv_storage(num_blocks_, block_size)) {
    paged_.add_sequence(num_blocks_ * block_size);
  }

  void run_target() {
    const auto end = static_cast<std::uint32_t>(tokens_.size()) - 1;
    for (std::uint32_t begin = 0; begin < end; begin += chunk) {
      auto rows = paged_.chain_rows(0, begin, std::min(end, begin + chunk));
      for (auto& row : rows) row.token = tokens_[row.position.value];
      target_.forward(paged_.batch(rows), *target_kv_, {{}, {}, {}});
    }
    const auto& features = *target_kv_->features();
    for (std::uint32_t p = 0; p < end; ++p)
      for (const layer_index tap : head_.taps()) {
        const float* const from =
            features.values + cell(p) * features.width() + features.place_of(tap) * features.hidden_size;
        out_.insert(out_.end(), from, from + features.hidden_size);
      }
  }

  void run_text() {
    const auto end = static_cast<std::uint32_t>(tokens_.size()) - 1;
    for (std::uint32_t begin = 0; begin < end; begin += chunk) {
      auto rows = paged_.chain_rows(0, begin, std::min(end, begin + chunk));
      std::vector<std::uint32_t> cells;
      for (auto& row : rows) {
        row.token = tokens_[row.position.value + 1];
        cells.push_back(cell(row.position.value));
      }
      run_head(rows, {target_kv_->features(), cells, std::vector<std::uint32_t>(rows.size(), 0)});
    }
  }

  void run_chain(std::uint32_t num_drafted) {
    for (std::uint32_t level = 1; level < num_drafted; ++level) {
      const auto slot = static_cast<std::uint32_t>(tokens_.size()) - 2 + level;
      auto rows = paged_.chain_rows(0, slot, slot + 1);
      rows[0].token = target_id(last_);
      out_.push_back(static_cast<float>(rows[0].token.value));
      run_head(rows,
               {nullptr, std::vector<std::uint32_t>{cell(slot - 1)}, std::vector<std::uint32_t>{level}});
    }
  }

  void run_block() {
    const model::head_traits traits = head_.traits();
    const auto end = static_cast<std::uint32_t>(tokens_.size()) - 1, width = head_.info().vocab_size;
    for (std::uint32_t begin = 0; begin < end; begin += chunk) {
      const bool is_last = begin + chunk >= end;
      input from{target_kv_->features(), {}, {}};
      auto rows = paged_.chain_rows(0, begin, std::min(end, begin + chunk));
      for (auto& row : rows) {
        row.token = tokens_[row.position.value + 1];
        from.cells.push_back(cell(row.position.value));
        from.levels.push_back(0);
      }
      std::vector<std::uint32_t> wanted;
      for (auto row : paged_.block_rows(0, end, is_last ? end + traits.num_block_rows : end)) {
        row.token = tokens_.back();
        from.cells.push_back(cell(end - 1));
        from.levels.push_back(row.slot.value + 1 - end);
        if (from.levels.back() >= traits.first_level_row)
          wanted.push_back(static_cast<std::uint32_t>(rows.size()));
        rows.push_back(row);
      }
      last_ = run_rows(paged_.batch(rows), from, wanted);
    }
    const std::vector<float> levels = last_;
    const std::size_t num_levels = levels.size() / width;
    std::vector<float> row(levels.begin(), levels.begin() + width);
    out_.insert(out_.end(), row.begin(), row.end());
    std::uint32_t above = cell(end - 1);
    std::vector<kv_slot> path;
    for (std::uint32_t level = 1; level < num_levels; ++level) {
      std::vector<float> sum(levels.begin() + static_cast<std::ptrdiff_t>(level) * width,
                             levels.begin() + static_cast<std::ptrdiff_t>(level + 1) * width);
      if (traits.adds_to_levels()) {
        path.emplace_back(end + traits.num_block_rows + level - 1);
        device::batch_entry next{.token = target_id(row),
                                 .position = token_position{end + level - 1},
                                 .slot = path.back(),
                                 .path_begin = 0,
                                 .path_length = level};
        const std::vector<device::batch_entry> rows{next};
        device::row_batch batch = paged_.batch(rows);
        batch.paths = path;
        const auto term = run_rows(batch, {nullptr, {above}, {level}}, {0});
        for (std::uint32_t t = 0; t < width; ++t) sum[t] += term[t];
        above = cell(path.back().value);
      }
      row = sum;
      out_.insert(out_.end(), row.begin(), row.end());
    }
  }

  void write(const char* path) const {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(out_.data()),
               static_cast<std::streamsize>(out_.size() * sizeof(float)));
  }

 private:
  struct input {
    const model::feature_cells* of_target;
    std::vector<std::uint32_t> cells, levels;
  };

  static std::uint32_t blocks_for(std::size_t positions) {
    return static_cast<std::uint32_t>(positions / block_size + 1);
  }
  std::uint32_t cell(std::uint32_t slot) const {
    const device::kv_copy at = paged_.copy_of(0, slot, slot);
    return at.from_block.value * block_size + at.from_offset;
  }

  /// The likeliest token, as the target numbers it.
  token_id target_id(const std::vector<float>& logits) const {
    const auto best =
        static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    return head_.target_ids().empty() ? token_id{static_cast<std::int32_t>(best)} : head_.target_ids()[best];
  }

  std::vector<float> run_rows(const device::row_batch& batch, const input& from,
                              const std::vector<std::uint32_t>& wanted) {
    std::vector<float> logits(wanted.size() * head_.info().vocab_size);
    target_.run([&](device::ops& ops) {
      head_.forward(ops, batch, {from.of_target, from.cells, from.levels}, kv_.get(), {wanted, logits});
    });
    return logits;
  }

  void run_head(const std::vector<device::batch_entry>& rows, const input& from) {
    std::vector<std::uint32_t> all(rows.size());
    for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
    const std::vector<float> logits = run_rows(paged_.batch(rows), from, all);
    out_.insert(out_.end(), logits.begin(), logits.end());
    last_.assign(logits.end() - head_.info().vocab_size, logits.end());
  }

  cpu_model& target_;
  const model::draft_head& head_;
  std::vector<token_id> tokens_;
  std::uint32_t num_blocks_;
  paged_sequences paged_;
  std::unique_ptr<model::kv_storage> target_kv_, kv_;
  std::vector<float> out_, last_;
};

void run(char** arguments) {
  auto target = cpu_model::open(arguments[1], {.num_threads = 2, .level = {}, .kv_type = kv_type::f32});
  const std::shared_ptr<const model::transformer> shared(std::shared_ptr<void>(), &target.get());
  const auto head = model::load_draft_head(arguments[2], arguments[3], shared, {kv_type::f32, {}},
                                           target.device(), target.device());
  if (!head) throw std::runtime_error(head.error().message());
  const auto num_drafted = static_cast<std::uint32_t>(std::stoul(arguments[5]));
  dump of(target, **head, read_tokens(arguments[4]), num_drafted);
  of.run_target();
  if ((*head)->traits().num_block_rows > 0) {
    of.run_block();
  } else {
    of.run_text();
    of.run_chain(num_drafted);
  }
  of.write(arguments[6]);
}

} // namespace
} // namespace paceline::test

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "head_dump MODEL.gguf KIND HEAD TOKENS NUM_DRAFTED OUT\n");
    return 2;
  }
  try {
    paceline::test::run(argv);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "head_dump: %s\n", e.what());
    return 1;
  }
}

#include "apps/bench/lone_head.hpp"

#include "config/drafters.hpp"
#include "runtime/model/heads/files/head_kind.hpp"
#include "runtime/speculation/drafters/model_drafter.hpp"
#include "runtime/speculation/drafters/registry.hpp"
#include "runtime/speculation/trees/token_tree.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace paceline::apps::bench {

namespace {

/// Together with the newest token's row this is the most logits that a pass gives.
constexpr std::uint32_t most_nodes = 63;

using shape = lone_head::shape;

/// The kind's default tree.
shape own_shape(double length, std::string source) {
  return {.options = {}, .acceptance_length = length, .source = std::move(source)};
}

shape chain_of(std::uint32_t levels, double length, std::string source) {
  shape made = own_shape(length, std::move(source));
  made.options.tree = config::tree_kind::chain;
  made.options.draft_length = levels;
  return made;
}

shape tree_of(std::uint32_t levels, std::uint32_t nodes, double length, std::string source) {
  shape made = chain_of(levels, length, std::move(source));
  made.options.tree = config::tree_kind::dynamic;
  made.options.tree_top_k = 10;
  made.options.max_tree_nodes = nodes;
  return made;
}

/// Shapes and the acceptance lengths that were published for them.
std::vector<shape> published_shapes(const std::string& kind) {
  if (kind == "eagle2") return {tree_of(7, 59, 4.36, "Spec-Bench, Vicuna-7B, temperature 0")};
  if (kind == "eagle3")
    return {chain_of(5, 3.02, "speculators, Qwen3-8B, 9 sets, temperature 0.6"),
            tree_of(8, 59, 6.23, "arXiv:2503.01840, Llama-3.1-8B, 5 sets, temperature 0")};
  if (kind == "mtp") return {chain_of(1, 1.85, "arXiv:2412.19437, DeepSeek-V3, second token")};
  if (kind == "dflash") return {chain_of(7, 3.97, "DeepSpec, Qwen3-8B, mean of 4 sets, temperature 1")};
  if (kind == "dspark") return {chain_of(7, 4.66, "DeepSpec, Qwen3-8B, mean of 4 sets, temperature 1")};
  if (kind == "medusa") return {own_shape(2.32, "Spec-Bench, Vicuna-7B, temperature 0")};
  if (kind == "hydra") return {own_shape(3.24, "Spec-Bench, Vicuna-7B, temperature 0")};
  return {shape{}};
}

} // namespace

expected<std::vector<std::unique_ptr<lone_head>>> lone_head::open_all(const lone_model& target,
                                                                      const std::string& path,
                                                                      const model::head_load_options& load,
                                                                      std::uint32_t context) {
  const auto kind = model::kind_of_head(path);
  if (!kind) return kind.error();
  const auto head = model::load_draft_head(*kind, path, target.model(), load, target.device().weights(),
                                           target.device().buffers());
  if (!head) return head.error();
  std::vector<std::unique_ptr<lone_head>> made;
  for (shape& one : published_shapes(*kind)) {
    one.options.name = one.options.kind = *kind;
    one.options.path = path;
    one.options = config::with_kind_defaults(std::move(one.options), (*head)->traits().max_levels);
    one.options.draft_length = std::min(one.options.draft_length, (*head)->traits().max_levels);
    auto drafter = speculation::drafter_registry::with_built_in().make(
        {.options = one.options, .own_head = *head, .target_vocab_size = target.info().vocab_size});
    if (!drafter) return std::move(drafter).error();
    made.emplace_back(new lone_head(target, path, *head, std::move(one), *std::move(drafter), context));
  }
  return made;
}

lone_head::lone_head(const lone_model& target, std::string path,
                     std::shared_ptr<const model::draft_head> head, shape drafts,
                     std::unique_ptr<speculation::drafter> drafter, std::uint32_t context)
    : path_(std::move(path)), head_(std::move(head)), shape_(std::move(drafts)), context_(context),
      drafter_(std::move(drafter)), session_(drafter_->open(request_id{1})),
      sampling_(sampling_params{.temperature = 0}, {}) {
  const std::uint32_t num_blocks = (context + 2 * most_nodes) / block_size + 1;
  target_kv_ = target.model()->make_kv_storage(num_blocks, block_size, head_->taps());
  target_kv_->make_states(speculation::token_tree::max_nodes + 1);
  for (std::uint32_t b = 0; b < num_blocks; ++b) blocks_.emplace_back(b);
  passes_ = std::make_unique<model::made_up_passes>(*target.model(), *target_kv_, blocks_);
  const std::uint32_t own_cells =
      drafter_->own_positions(levels()) + (drafter_->traits().caches_text ? context + 1 : 1);
  if (drafter_->own_model()) {
    kv_ = drafter_->own_model()->make_kv_storage(own_cells / block_size + 1, block_size);
    blocks_.resize(kv_->num_blocks(), block_id{0});
    for (std::uint32_t b = 0; b < kv_->num_blocks(); ++b) blocks_[b] = block_id{b};
  }
  for (std::uint32_t i = 0; i <= context; ++i) tokens_.push_back(passes_->row_at(i).token);
  counts_.add_prompt(tokens_);
}

std::size_t lone_head::propose(device::ops& ops, std::size_t length, std::uint32_t num_levels) {
  speculation::draft_task task{};
  task.request = request_id{1};
  task.tokens = std::span(tokens_).first(length);
  task.sampling = &sampling_;
  task.counts = &counts_;
  task.prompt_length = static_cast<std::uint32_t>(length);
  task.draft_length = num_levels;
  task.max_nodes = most_nodes;
  task.blocks = blocks_;
  task.target_cells = {target_kv_.get(), passes_->blocks(), static_cast<std::uint32_t>(length) - 1};
  task.session = session_.get();
  drafter_->propose(ops, kv_.get(), {&task, 1});
  return task.result.tree.size();
}

void lone_head::read_text(device::ops& ops) {
  passes_->run(ops, 0, context_);
  constexpr std::uint32_t at_once = speculation::model_drafter::max_catch_up;
  for (std::uint32_t read = 0; read <= context_ && num_nodes_ == 0; read += at_once)
    num_nodes_ = static_cast<std::uint32_t>(propose(ops, tokens_.size(), levels()));
}

void lone_head::forget(device::ops& ops) {
  const auto committed = static_cast<std::size_t>(std::max(1.0, std::round(shape_.acceptance_length)));
  propose(ops, tokens_.size() - std::min<std::size_t>(committed, context_ / 2), 1);
}

} // namespace paceline::apps::bench

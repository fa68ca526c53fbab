#include "runtime/speculation/drafters/model_drafter.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/row_batch.hpp"

#include <algorithm>
#include <numeric>

namespace paceline::speculation {

namespace {

/// What the drafter's own pool holds of one request. Invariant: the cell of slot i, i < cached.size(), was
/// written by a pass over cached[0..i]; so cells are valid up to the first token that differs from the
/// committed ones.
struct model_session final : drafter_session {
  std::vector<token_id> cached;
  std::size_t num_agreed = 0; ///< leading tokens of `cached` known to be committed; those never change

  /// Forgets cells of draft tokens that were not committed.
  void roll_back_to(std::span<const token_id> committed) {
    const std::size_t end = std::min(cached.size(), committed.size());
    num_agreed = std::min(num_agreed, end);
    while (num_agreed < end && cached[num_agreed] == committed[num_agreed]) ++num_agreed;
    cached.resize(num_agreed);
  }
  void forget_all() {
    cached.clear();
    num_agreed = 0;
  }
};

} // namespace

/// One task in the course of a call.
struct model_drafter::lane {
  draft_task* task = nullptr;
  model_session* session = nullptr;
  std::uint32_t depth_limit = 0;
};

/// Rows of one forward pass; the lane of logits row i is lanes[logit_lanes[i]].
struct model_drafter::pass {
  std::vector<device::batch_entry> rows;
  std::vector<std::uint32_t> logit_rows;
  std::vector<std::size_t> logit_lanes;

  void clear() {
    rows.clear();
    logit_rows.clear();
    logit_lanes.clear();
  }
  /// A token that the own vocabulary lacks (the target's may be longer) is fed as token 0: worse drafts,
  /// right positions.
  void feed(lane& to, std::size_t lane_index, token_id token, std::uint32_t vocab_size) {
    const auto position = static_cast<std::uint32_t>(to.session->cached.size());
    const bool known = static_cast<std::uint32_t>(token.value) < vocab_size;
    rows.push_back({.token = known ? token : token_id{0},
                    .position = token_position{position},
                    .slot = kv_slot{position},
                    .sequence = static_cast<std::uint32_t>(lane_index)});
    to.session->cached.push_back(token);
  }
  void ask_for_logits(std::size_t lane_index) {
    logit_rows.push_back(static_cast<std::uint32_t>(rows.size()) - 1);
    logit_lanes.push_back(lane_index);
  }
};

model_drafter::model_drafter(const config::drafter_options& options,
                             std::shared_ptr<const model::language_model> own_model,
                             std::uint32_t target_vocab_size)
    : model_(std::move(own_model)), target_vocab_size_(target_vocab_size) {
  traits_ = {.name = options.name,
             .where = placement::worker,
             .taps = {},
             .has_draft_probs = true,
             .default_draft_length = options.draft_length,
             .max_context = model_->info().context_length};
}

std::unique_ptr<drafter_session> model_drafter::open(request_id) { return std::make_unique<model_session>(); }

/// Levels that fit the model's context and the lease: drafting d tokens feeds positions up to committed + d
/// - 2.
std::uint32_t model_drafter::depth_limit(const draft_task& task, const model::kv_storage& kv) const {
  const std::uint64_t room =
      std::min<std::uint64_t>(traits_.max_context, std::uint64_t{task.blocks.size()} * kv.block_size());
  const std::uint64_t committed = task.tokens.size();
  if (committed == 0 || committed > room) return 0;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>({task.draft_length, room - committed + 1, token_tree::max_nodes}));
}

/// Feeds what the sessions lack. Those that lack least go first, so that a long prompt does not stop running
/// requests.
void model_drafter::plan_catch_up(std::vector<lane>& lanes, pass& next) const {
  std::vector<std::size_t> missing(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const std::span<const token_id> committed = lanes[i].task->tokens;
    if (lanes[i].depth_limit == 0) continue;
    lanes[i].session->roll_back_to(committed.first(committed.size() - 1)); // the last row's logits are needed
    missing[i] = committed.size() - lanes[i].session->cached.size();
  }
  std::vector<std::size_t> order(lanes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return missing[a] < missing[b]; });
  std::size_t budget = max_catch_up;
  for (const std::size_t i : order) {
    const std::size_t count = std::min(missing[i], budget);
    if (count == 0) continue;
    budget -= count;
    const std::size_t begin = lanes[i].session->cached.size();
    for (std::size_t j = begin; j < begin + count; ++j)
      next.feed(lanes[i], i, lanes[i].task->tokens[j], model_->info().vocab_size);
    if (count == missing[i]) next.ask_for_logits(i);
  }
}

void model_drafter::run(device::ops& ops, model::kv_storage& kv, const std::vector<lane>& lanes, pass& next) {
  std::vector<device::sequence_kv> sequences;
  for (const lane& one : lanes) sequences.push_back({.blocks = one.task->blocks});
  logits_.resize(next.logit_rows.size() * model_->info().vocab_size);
  try {
    model_->forward(ops, {.rows = next.rows, .sequences = sequences, .paths = {}}, kv,
                    {.logit_rows = next.logit_rows, .logits = logits_, .taps = {}});
  } catch (...) {
    for (const lane& one : lanes) one.session->forget_all(); // which cells were written is unknown
    throw;
  }
}

/// Draws the lane's next token from its row. False if the row offers none.
bool model_drafter::take_token(lane& to, std::span<float> logits) const {
  draft_task& task = *to.task;
  token_tree& tree = task.result.tree;
  const auto committed = static_cast<std::uint32_t>(task.tokens.size());
  const sampling::row_context row{.committed = task.counts,
                                  .draft_path = tree.tokens(),
                                  .position = token_position{committed + tree.size()},
                                  .output_index = committed - task.prompt_length + tree.size()};
  const auto parent = static_cast<std::int32_t>(tree.size()) - 1;
  const auto shared = logits.first(std::min<std::size_t>(logits.size(), target_vocab_size_));
  if (task.weighs_probs()) {
    if (!task.sampling->process(shared, row)) return false;
    draft_distribution from = truncated_distribution(shared);
    tree.add(draw(from, task.sampling->noise(noise_purpose::draft, row.position, draft_place(tree.size(), 0))), parent);
    task.result.probs.push_back(std::move(from));
    return true;
  }
  const sampling::choice chosen = task.sampling->choose(shared, row);
  if (!chosen.hopeless) tree.add(chosen.token, parent);
  return !chosen.hopeless;
}

void model_drafter::propose(device::ops& ops, model::kv_storage* kv, std::span<draft_task> tasks) {
  PACELINE_CHECK(kv != nullptr, "a model drafter needs a pool");
  std::vector<lane> lanes;
  for (draft_task& task : tasks) {
    auto* const session = dynamic_cast<model_session*>(task.session);
    PACELINE_CHECK(session != nullptr, "a model drafter needs a session of its own");
    task.result = {.base_length = static_cast<std::uint32_t>(task.tokens.size())};
    lanes.push_back({.task = &task, .session = session, .depth_limit = depth_limit(task, *kv)});
  }
  pass next;
  plan_catch_up(lanes, next);
  while (!next.rows.empty()) {
    run(ops, *kv, lanes, next);
    const std::vector<std::size_t> drafting = std::move(next.logit_lanes);
    next.clear();
    for (std::size_t i = 0; i < drafting.size(); ++i) {
      lane& to = lanes[drafting[i]];
      const std::size_t width = model_->info().vocab_size;
      if (!take_token(to, std::span(logits_).subspan(i * width, width))) continue;
      if (to.task->result.tree.size() >= to.depth_limit) continue;
      next.feed(to, drafting[i], to.task->result.tree.tokens().back(), model_->info().vocab_size);
      next.ask_for_logits(drafting[i]);
    }
  }
}

expected<std::unique_ptr<drafter>> make_model_drafter(const drafter_parts& parts) {
  const std::string name = "drafter \"" + parts.options.name + "\": ";
  if (parts.own_model == nullptr)
    return error{errc::invalid_argument, name + "kind model needs a model (path)"};
  return std::unique_ptr<drafter>(
      std::make_unique<model_drafter>(parts.options, parts.own_model, parts.target_vocab_size));
}

} // namespace paceline::speculation

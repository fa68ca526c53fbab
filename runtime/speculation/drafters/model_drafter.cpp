#include "runtime/speculation/drafters/model_drafter.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/ops.hpp"
#include "runtime/device/row_batch.hpp"
#include "runtime/speculation/drafters/chained_draft.hpp"
#include "runtime/speculation/drafters/inner_guesses.hpp"
#include "runtime/speculation/drafters/target_prefix.hpp"

#include <algorithm>
#include <numeric>

namespace paceline::speculation {

using config::tree_kind;

namespace {

/// Limit for the additional own tokens that replace one token of the target (retokenise).
constexpr std::uint32_t longer_text(std::uint32_t draft_length) {
  return draft_length + draft_length / 2 + 1;
}

token_choice choice_of(const draft_task& task, const model_drafter_settings& settings) {
  if (settings.bridge && settings.bridge->how() == vocabulary_bridge::method::retokenise)
    return token_choice::own_best;
  if (settings.greedy) return token_choice::likeliest;
  return task.weighs_probs() ? token_choice::drawn : token_choice::own_sample;
}

/// The request's text in the drafter's own vocabulary. If a lease of `room` cells is too small for it, its
/// oldest part is dropped.
std::span<const token_id> context_of(const draft_task& task, model_session& session,
                                     const vocabulary_bridge* bridge, std::uint64_t room) {
  if (bridge == nullptr) return task.tokens;
  if (task.num_settled > 0) { // the text may differ from that of the previous call
    session.own_text.clear();
    session.num_translated = 0;
  }
  if (session.num_translated < task.tokens.size())
    bridge->extend(session.own_text, task.tokens, session.num_translated);
  session.num_translated = task.tokens.size();
  auto& text = session.own_text;
  if (text.size() + task.draft_length > room) {
    // More is dropped than necessary, so that this does not happen in every round.
    const std::uint64_t keep = room * 3 / 4;
    if (text.size() > keep) text.erase(text.begin(), text.end() - static_cast<std::ptrdiff_t>(keep));
  }
  return text;
}

/// The number of levels that fit into the model's context and into the lease, of which `room` positions after
/// the newest row are free. To draft d tokens, d - 1 tokens are fed, or the head's block rows.
std::uint64_t levels_within(std::uint64_t room, const model::head_traits& head) {
  if (head.num_block_rows == 0) return room + 1;
  if (!head.block_is_causal) return room < head.num_block_rows ? 0 : head.max_levels;
  return room + 1 - std::min<std::uint64_t>(room + 1, head.first_level_row);
}

} // namespace

/// Rows of one forward pass. Rows with logits are grouped by lane, in the order of its `wanted`.
struct model_drafter::pass {
  struct lane_rows {
    std::size_t lane;
    std::size_t first; ///< number of its first row of logits
  };

  std::vector<device::batch_entry> rows;
  std::vector<kv_slot> paths;
  std::vector<std::uint32_t> logit_rows;
  std::vector<lane_rows> deciding;
  /// For a head: the cell whose hidden state each row reads. For rows of the text it is a cell of the
  /// target's pool; for rows of the draft it is a cell of the own pool. All rows of a pass are of one kind.
  std::vector<std::uint32_t> feature_cells;
  std::vector<std::uint32_t> levels; ///< for a head: how far each row is behind the text
  const model::feature_cells* features_of_target = nullptr;

  void clear() {
    feature_cells.clear();
    levels.clear();
    features_of_target = nullptr;
    rows.clear();
    paths.clear();
    logit_rows.clear();
    deciding.clear();
  }
  void ask_for_logits(std::size_t lane) {
    if (deciding.empty() || deciding.back().lane != lane) deciding.push_back({lane, logit_rows.size()});
    logit_rows.push_back(static_cast<std::uint32_t>(rows.size()) - 1);
  }
};

model_drafter::model_drafter(const config::drafter_options& options, draft_network network,
                             std::uint32_t target_vocab_size, model_drafter_settings settings)
    : network_(std::move(network)), target_vocab_size_(target_vocab_size), settings_(std::move(settings)) {
  traits_ = {.name = options.name,
             .where = placement::worker,
             .taps = {},
             .default_draft_length = options.draft_length,
             .max_context = network_.either().info().context_length,
             .caches_text = network_.traits().reads_context,
             .reads_target_cells = settings_.reads_target_cells,
             .widens_for_beams = settings_.widens_for_beams};
  if (network_.head) traits_.taps = {network_.head->taps().begin(), network_.head->taps().end()};
  if (own_model() != nullptr && network_.traits().reads_context && !settings_.bridge) {
    traits_.text_begin = network_.head ? 1 : 0;
    traits_.max_text = traits_.max_context;
  }
  const model::head_traits head = network_.traits();
  if (!head.block_is_causal) traits_.block_positions = head.num_block_rows;
  PACELINE_CHECK(head.num_block_rows == 0 ||
                     head.max_levels + head.first_level_row <= head.num_block_rows + 1,
                 "a block has a row for each level");
}

std::unique_ptr<drafter_session> model_drafter::open(request_id request) {
  auto session = std::make_unique<model_session>();
  if (settings_.inner) session->inner = settings_.inner->open(request);
  return session;
}

std::uint32_t model_drafter::own_positions(std::uint32_t draft_length) const noexcept {
  if (settings_.bridge && settings_.bridge->how() == vocabulary_bridge::method::retokenise)
    return longer_text(draft_length);
  const model::head_traits head = network_.traits();
  draft_length = std::min(draft_length, head.max_levels);
  const std::uint32_t block = head.block_rows_for(draft_length);
  if (head.num_block_rows > 0 && head.is_parallel) return block;
  if (settings_.shape.kind != tree_kind::dynamic && settings_.shape.kind != tree_kind::dart)
    return block + max_nodes(draft_length);
  return block + most_expanded(settings_.shape, draft_length);
}

/// The request's text as the network reads it. It is empty if the network cannot draft for the request now. A
/// head needs the target's states of all tokens but the newest, and at least one state. It reads the text
/// either without its first token or without its newest one.
std::span<const token_id> model_drafter::text_of(const draft_task& task, model_session& session,
                                                 std::uint64_t room) const {
  if (!network_.head) return context_of(task, session, settings_.bridge.get(), room);
  const target_cells& there = task.target_cells;
  if (task.tokens.size() < 2 || there.features() == nullptr || there.num_computed() + 1 < task.tokens.size())
    return {};
  return network_.traits().reads_context ? task.tokens.subspan(1) : task.tokens.last(1);
}

/// A token that the drafter's vocabulary lacks is fed as token 0, because the target's vocabulary may be
/// larger. Drafts become worse, but positions are right.
token_id model_drafter::known(token_id token) const {
  return static_cast<std::uint32_t>(token.value) < network_.num_tokens() ? token : token_id{0};
}

draft_lane model_drafter::open_lane(draft_task& task, const model::kv_storage* kv) const {
  auto* const session = dynamic_cast<model_session*>(task.session);
  PACELINE_CHECK(session != nullptr, "a model drafter needs a session of its own");
  task.result = {.base_length = static_cast<std::uint32_t>(task.tokens.size())};
  draft_lane lane;
  lane.task = &task;
  lane.session = session;
  lane.block_size = kv != nullptr ? kv->block_size() : 1;
  lane.choice = choice_of(task, settings_);
  const bool widens = settings_.widens_for_beams && task.beam_width > 1;
  lane.shape = widens ? widened(task.beam_width) : settings_.shape;
  const std::uint64_t cells = kv != nullptr ? std::uint64_t{task.blocks.size()} * kv->block_size()
                                            : std::uint64_t{traits_.max_context} + 1;
  const std::uint64_t room = std::min<std::uint64_t>(traits_.max_context, cells);
  lane.context = text_of(task, *session, room);
  const std::uint64_t length = lane.context.size();
  if (length == 0 || length > room || task.draft_length == 0) return lane;
  const model::head_traits head = network_.traits();
  const std::uint32_t wanted =
      lane.choice == token_choice::own_best ? longer_text(task.draft_length) : task.draft_length;
  const auto depth = static_cast<std::uint32_t>(
      std::min<std::uint64_t>({wanted, levels_within(room - length, head), head.max_levels}));
  if (depth == 0) return lane;
  const std::uint32_t most = widens ? settings_.max_tree_nodes : max_nodes(task.draft_length);
  lane.bounds = {depth, std::clamp(std::min(task.max_nodes, most), depth, token_tree::max_nodes)};
  lane.max_branches = cells - length;
  lane.num_block_rows = head.block_rows_for(depth);
  lane.has_equal_rows = head.is_parallel;
  return lane;
}

void model_drafter::feed_context(draft_lane& lane, std::size_t lane_index, std::size_t count,
                                 pass& next) const {
  for (std::size_t i = 0; i < count; ++i) {
    const auto position = static_cast<std::uint32_t>(lane.session->cached().size());
    const token_id token = lane.context[position];
    next.rows.push_back({.token = known(token),
                         .position = token_position{position},
                         .slot = kv_slot{position},
                         .sequence = static_cast<std::uint32_t>(lane_index)});
    if (network_.head) {
      next.levels.push_back(0);
      const auto first = lane.task->tokens.size() - 1 - lane.context.size(); // position of row 0
      next.feature_cells.push_back(
          lane.task->target_cells.cell_at(static_cast<std::uint32_t>(first + position)));
      next.features_of_target = lane.task->target_cells.features();
    }
    lane.session->feed(token);
  }
}

/// Feeds the head's block rows after the newest row, and asks for the rows of logits that give the draft's
/// levels. Without block rows, this is the row of the newest token.
void model_drafter::feed_block(draft_lane& lane, std::size_t lane_index, pass& next) const {
  const model::head_traits head = network_.traits();
  if (head.first_level_row == 0) next.ask_for_logits(lane_index);
  const device::batch_entry newest = next.rows.back();
  const std::uint32_t newest_cell = next.feature_cells.empty() ? 0 : next.feature_cells.back();
  for (std::uint32_t number = 1; number <= lane.num_block_rows; ++number) {
    const auto above = static_cast<std::int32_t>(lane.session->num_branches()) - 1;
    lane.session->feed_branch(lane.context.back(), above);
    const std::uint32_t last_seen = head.block_is_causal ? number : lane.num_block_rows;
    device::batch_entry row = newest;
    row.slot = kv_slot{newest.slot.value + number};
    row.position = token_position{newest.position.value + last_seen};
    row.positions_back = last_seen - number;
    next.rows.push_back(row);
    next.levels.push_back(number);
    next.feature_cells.push_back(newest_cell);
    if (number >= head.first_level_row && number - head.first_level_row < lane.bounds.depth)
      next.ask_for_logits(lane_index);
  }
}

/// Feeds a draft token below the branch `parent`, and asks for its row of logits.
void model_drafter::feed_branch(draft_lane& lane, std::size_t lane_index, token_id token, std::int32_t parent,
                                pass& next) const {
  const kv_slot slot = lane.session->next_slot();
  const auto num_cached = static_cast<std::int32_t>(lane.session->cached().size());
  const std::vector<kv_slot> path = lane.session->path_to(lane.session->feed_branch(token, parent));
  device::batch_entry row{.token = known(token),
                          .position = token_position{slot.value},
                          .slot = slot,
                          .sequence = static_cast<std::uint32_t>(lane_index)};
  if (!path.empty()) {
    row.position =
        token_position{static_cast<std::uint32_t>(lane.session->cached().size() + path.size() - 1)};
    row.path_begin = static_cast<std::uint32_t>(next.paths.size());
    row.path_length = static_cast<std::uint32_t>(path.size());
    next.paths.insert(next.paths.end(), path.begin(), path.end());
  }
  if (network_.head) {
    next.levels.push_back(row.position.value + 1 - static_cast<std::uint32_t>(num_cached));
    next.feature_cells.push_back(lane.cell_at(num_cached + parent)); // -1 gives the cell of the newest token
  }
  next.rows.push_back(row);
  next.ask_for_logits(lane_index);
}

/// Drops the sessions' cells from the first one that does not match the contexts.
void model_drafter::settle(device::ops& ops, model::kv_storage* kv, std::vector<draft_lane>& lanes) const {
  for (draft_lane& lane : lanes) {
    if (lane.bounds.depth == 0) continue;
    const auto computed = lane.context.first(lane.context.size() - 1); // the last row's logits are needed
    if (lane.session->next_slot().value == 0)
      lane.session->take_over(
          computed.first(std::min<std::size_t>(lane.task->num_drafter_cells, computed.size())));
    if (network_.head)
      lane.session->forget_draft(); // accepted tokens are computed from the target's features
    if (lane.task->num_settled > 0)
      lane.session->doubt_beyond(settings_.bridge ? 0 : lane.task->num_settled - (network_.head ? 1 : 0));
    const auto moves = lane.session->settle(computed, lane.task->blocks, lane.block_size);
    if (!moves.empty()) kv->copy(ops, moves);
  }
  if (settings_.reads_target_cells) take_target_cells(ops, *kv, lanes);
}

/// Makes the drafts that the device can make in one launch. Passes make the other drafts.
void model_drafter::draft_chains(device::ops& ops, model::kv_storage& kv,
                                 std::vector<draft_lane>& lanes) const {
  const std::uint32_t vocab_size = network_.model->info().vocab_size;
  if (!ops.can_chain() || settings_.bridge || settings_.inner || vocab_size > target_vocab_size_) return;
  chained_draft chains;
  for (draft_lane& lane : lanes)
    if (lane.bounds.depth > 0 && lane.shape.kind == tree_kind::chain) chains.add(lane, vocab_size);
  if (chains.size() > 0 && chains.size() <= device::max_chain_rows) chains.run(ops, *network_.model, kv);
}

/// Feeds the tokens that the sessions lack. Sessions that lack the fewest come first, so that a long prompt
/// does not stop running requests.
void model_drafter::plan_catch_up(device::ops& ops, std::vector<draft_lane>& lanes, pass& next) const {
  std::vector<std::size_t> missing(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i)
    if (lanes[i].bounds.depth > 0 && !lanes[i].is_drafted)
      missing[i] = lanes[i].context.size() - lanes[i].session->cached().size();
  std::vector<std::size_t> order(lanes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return missing[a] < missing[b]; });
  std::size_t budget = max_catch_up;
  for (const std::size_t i : order) {
    const std::size_t count = std::min(missing[i], budget);
    if (count < missing[i]) lanes[i].task->result.catching_up = true;
    if (count == 0) continue;
    budget -= count;
    feed_context(lanes[i], i, count, next);
    if (count < missing[i]) continue;
    lanes[i].wanted = next_expansions(lanes[i].shape, lanes[i].candidates, lanes[i].bounds, 0);
    feed_block(lanes[i], i, next);
    feed_guesses(ops, lanes[i], i, next);
  }
}

/// For a cascade: feeds the draft of the inner drafter after the newest token.
void model_drafter::feed_guesses(device::ops& ops, draft_lane& lane, std::size_t lane_index,
                                 pass& next) const {
  lane.guesses.clear();
  const std::size_t room = lane.bounds.depth - lane.candidates.size() - 1; // the last one is never fed
  if (!settings_.inner || room == 0) return;
  const auto most = std::min<std::size_t>(room, lane.session->num_guesses.next());
  lane.guesses = guesses_behind(lane, ops, *settings_.inner, static_cast<std::uint32_t>(most));
  for (const token_id guess : lane.guesses)
    feed_branch(lane, lane_index, guess, static_cast<std::int32_t>(lane.session->num_branches()) - 1, next);
}

/// Feeds the candidates whose children are wanted next, as long as there are cells for them.
void model_drafter::feed_level(device::ops& ops, draft_lane& lane, std::size_t lane_index, pass& next) const {
  lane.wanted = next_expansions(lane.shape, lane.candidates, lane.bounds, lane.depth());
  const std::size_t room = lane.max_branches - std::min(lane.max_branches, lane.session->num_branches());
  if (lane.wanted.size() > room) {
    std::vector<std::int32_t> nodes;
    for (const expansion& one : lane.wanted) nodes.push_back(one.node);
    const std::vector<std::int32_t> kept = most_confident(lane.candidates, nodes, room);
    std::erase_if(lane.wanted, [&](const expansion& one) {
      return !std::binary_search(kept.begin(), kept.end(), one.node);
    });
  }
  for (const expansion& one : lane.wanted) {
    const std::int32_t above = lane.candidates[one.node].parent;
    const std::int32_t parent =
        above == token_tree::root ? token_tree::root : lane.branches[static_cast<std::size_t>(above)];
    token_id token = lane.candidates[one.node].token;
    if (settings_.bridge && lane.choice != token_choice::own_best) token = settings_.bridge->own_token(token);
    lane.branches[static_cast<std::size_t>(one.node)] =
        static_cast<std::int32_t>(lane.session->num_branches());
    feed_branch(lane, lane_index, token, parent, next);
  }
  if (!lane.wanted.empty()) feed_guesses(ops, lane, lane_index, next);
}

void model_drafter::run(device::ops& ops, model::kv_storage* kv, std::vector<draft_lane>& lanes, pass& next) {
  std::vector<device::sequence_kv> sequences;
  for (const draft_lane& one : lanes) sequences.push_back({.blocks = one.task->blocks});
  num_levels_ = 1;
  if (network_.traits().is_parallel && network_.traits().num_block_rows == 0)
    for (const auto& [lane, first] : next.deciding)
      num_levels_ = std::max(num_levels_, lanes[lane].bounds.depth);
  logits_.resize(next.logit_rows.size() * network_.either().info().vocab_size * num_levels_);
  const bool minds = settings_.confidence_threshold > 0 && network_.traits().has_confidence;
  confidences_.assign(minds ? next.logit_rows.size() : 0, 0.0F);
  const device::row_batch batch{.rows = next.rows, .sequences = sequences, .paths = next.paths};
  try {
    if (network_.head)
      network_.head->forward(ops, batch, {next.features_of_target, next.feature_cells, next.levels}, kv,
                             {next.logit_rows, logits_, num_levels_, confidences_});
    else
      network_.model->forward(ops, batch, *kv,
                              {.logit_rows = next.logit_rows, .logits = logits_, .taps = {}});
  } catch (...) {
    for (const draft_lane& one : lanes) one.session->forget_all(); // it is unknown which cells were written
    throw;
  }
}

void model_drafter::propose(device::ops& ops, model::kv_storage* kv, std::span<draft_task> tasks) {
  PACELINE_CHECK(kv != nullptr || own_model() == nullptr, "a model drafter needs a pool");
  std::vector<draft_lane> lanes;
  for (draft_task& task : tasks) lanes.push_back(open_lane(task, kv));
  pass next;
  settle(ops, kv, lanes);
  if (network_.model) draft_chains(ops, *kv, lanes);
  plan_catch_up(ops, lanes, next);
  while (!next.rows.empty()) {
    run(ops, kv, lanes, next);
    const auto deciding = std::move(next.deciding);
    next.clear();
    for (const auto& [lane, first] : deciding) {
      if (network_.traits().is_parallel) {
        take_parallel_rows(lanes[lane], first);
        continue;
      }
      const std::uint32_t depth = lanes[lane].depth();
      if (network_.traits().adds_to_levels()) complete_rows(lanes[lane], first);
      take_rows(lanes[lane], first);
      if (lanes[lane].depth() > depth) feed_level(ops, lanes[lane], lane, next);
    }
  }
  for (draft_lane& lane : lanes) {
    finish_draft(lane, lane.shape);
    if (lane.choice != token_choice::own_best || lane.task->result.tree.empty()) continue;
    const auto tokens = settings_.bridge->target_tokens(lane.task->tokens, lane.task->result.tree.tokens());
    lane.task->result.tree.clear();
    for (std::size_t i = 0; i < std::min<std::size_t>(tokens.size(), lane.task->draft_length); ++i)
      lane.task->result.tree.add(tokens[i], static_cast<std::int32_t>(i) - 1);
  }
}

} // namespace paceline::speculation

#include "runtime/speculation/drafters/model_drafter.hpp"

#include <algorithm>
#include <limits>

// Turns rows of logits into candidates, and limits how many of these a draft may have.

namespace paceline::speculation {

/// Logits over the drafter's own vocabulary.
std::span<float> model_drafter::own_row(std::size_t logit_row) {
  const std::size_t width = network_.either().info().vocab_size;
  return std::span(logits_).subspan(logit_row * width, width);
}

std::span<float> model_drafter::scores_of(std::size_t logit_row) {
  const std::size_t width = network_.either().info().vocab_size;
  const auto own = own_row(logit_row);
  if (network_.head && !network_.head->target_ids().empty()) {
    const auto ids = network_.head->target_ids();
    translated_.assign(target_vocab_size_, -std::numeric_limits<float>::infinity());
    for (std::size_t i = 0; i < width; ++i) translated_[static_cast<std::size_t>(ids[i].value)] = own[i];
    return translated_;
  }
  if (!settings_.bridge) return own.first(std::min<std::size_t>(width, target_vocab_size_));
  if (settings_.bridge->how() == vocabulary_bridge::method::retokenise) return own;
  translated_.resize(target_vocab_size_);
  settings_.bridge->translate(own, translated_);
  return translated_;
}

/// Rule `entropy`: the entropy of the first row limits the number of levels, before a token is drawn from
/// that row.
void model_drafter::mind_entropy(draft_lane& lane, std::span<const float> scores) const {
  auto& lengths = lane.session->lengths;
  if (!lengths) lengths.emplace(settings_.entropy_min_length, settings_.entropy_smoothing);
  lane.bounds.depth =
      std::min(lane.bounds.depth, lengths->next(normalised_entropy(scores), lane.task->draft_length));
}

/// For a head whose block gives a part of the logits of every level: stores that part, and adds it to the
/// rows of a draft.
void model_drafter::complete_rows(draft_lane& lane, std::size_t first_row) {
  if (lane.candidates.empty()) {
    const auto levels = own_row(first_row).data();
    lane.level_logits.assign(levels, levels + lane.bounds.depth * own_row(first_row).size());
    return;
  }
  const std::uint32_t level = lane.depth();
  for (std::size_t i = 0; i < lane.wanted.size(); ++i) {
    const std::span<float> row = own_row(first_row + i);
    const float* const of_level = lane.level_logits.data() + level * row.size();
    for (std::size_t t = 0; t < row.size(); ++t) row[t] += of_level[t];
  }
}

bool model_drafter::is_sure(std::size_t logit_row) const {
  return confidences_.empty() || confidences_[logit_row] >= settings_.confidence_threshold;
}

/// The rows of the lane's `wanted`. Nodes after which the head is not confident enough are removed from
/// `wanted`. The confidence depends on the previous tokens and not on the token to be drafted, so the
/// distribution of drawn tokens does not change.
std::vector<std::size_t> model_drafter::sure_rows(draft_lane& lane, std::size_t first_row) const {
  std::vector<std::size_t> rows;
  std::vector<expansion> wanted;
  for (std::size_t i = 0; i < lane.wanted.size(); ++i) {
    if (!is_sure(first_row + i)) continue;
    rows.push_back(first_row + i);
    wanted.push_back(lane.wanted[i]);
  }
  lane.wanted = std::move(wanted);
  return rows;
}

/// Evaluates a lane's rows. Guesses may follow the newest token. While they equal the model's choices, the
/// row after each of them is used, too.
void model_drafter::take_rows(draft_lane& lane, std::size_t first_row) {
  const std::vector<std::size_t> sure = sure_rows(lane, first_row);
  const auto rows = [&](std::size_t index) { return scores_of(sure[index]); };
  if (lane.task->lengths == length_rule::entropy && lane.candidates.empty())
    mind_entropy(lane, own_row(first_row));
  add_candidates(lane, lane.shape, rows);
  std::size_t right = 0;
  const auto open = [&] { return !lane.candidates.empty() && lane.candidates.size() < lane.bounds.depth; };
  for (; right < lane.guesses.size() && open(); ++right) {
    const auto newest = static_cast<std::int32_t>(lane.candidates.size()) - 1;
    if (lane.candidates[newest].token != lane.guesses[right]) break;
    lane.branches.back() = newest;
    lane.wanted = {{newest, 1}};
    add_candidates(lane, lane.shape, [&](std::size_t) { return scores_of(first_row + right + 1); });
    if (lane.candidates.size() == static_cast<std::size_t>(newest) + 1) break; // a row without finite logits
  }
  if (!lane.guesses.empty()) { // as many draft tokens are fed as have a successor
    lane.session->keep_branches(lane.session->num_branches() - (lane.guesses.size() - right));
    lane.session->num_guesses.on_verified(static_cast<std::uint32_t>(lane.guesses.size()),
                                          static_cast<std::uint32_t>(right));
  }
  lane.guesses.clear();
}

/// Evaluates the rows of a head that drafts all levels at once, with one row for each level. They come from
/// one row of the text or from several block rows. Nodes of a level differ only in their parents.
void model_drafter::take_parallel_rows(draft_lane& lane, std::size_t first_row) {
  std::vector<float> scores;
  for (std::uint32_t level = 0; level < lane.bounds.depth; ++level) {
    if (!is_sure(first_row * num_levels_ + level)) break;
    lane.wanted = next_expansions(lane.shape, lane.candidates, lane.bounds, level);
    const std::span<float> row = scores_of(first_row * num_levels_ + level);
    if (level == 0 && lane.task->lengths == length_rule::entropy)
      mind_entropy(lane, own_row(first_row * num_levels_));
    const bool is_read_again = lane.needs_each_row();
    add_candidates(lane, lane.shape, [&](std::size_t) {
      if (!is_read_again) return row;
      scores.assign(row.begin(), row.end()); // a copy, because ranking changes the scores
      return std::span(scores);
    });
    if (lane.depth() == level) break; // the row has no finite score
  }
}

std::uint32_t model_drafter::max_nodes(std::uint32_t draft_length) const noexcept {
  if (settings_.shape.kind == config::tree_kind::chain) return draft_length;
  const tree_bounds bounds{draft_length, std::min(settings_.max_tree_nodes, token_tree::max_nodes)};
  return std::max(draft_length, speculation::most_nodes(settings_.shape, bounds));
}

} // namespace paceline::speculation

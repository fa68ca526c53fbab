#include "gpu/choice_batch.hpp"

#include "gpu/packer.hpp"
#include "runtime/base/check.hpp"

#include <string>

namespace paceline::gpu {
namespace {

/// The arrays of a `choice_view` while they are built.
struct choice_arrays {
  std::vector<choice_request> requests;
  std::vector<choice_row> rows;
  std::vector<token_id> draft_tokens;
  std::vector<std::int32_t> parents;
  std::vector<biased_token> biases;
  std::vector<device::penalised_token> counts;
  std::vector<token_id> removed;
  std::vector<token_id> paths;
};

template <class T>
choice_span append(std::vector<T>& to, std::span<const T> values) {
  const choice_span added{static_cast<std::uint32_t>(to.size()), static_cast<std::uint32_t>(values.size())};
  to.insert(to.end(), values.begin(), values.end());
  return added;
}

/// Levels of the nodes; children of the root have level 1.
std::vector<std::uint32_t> levels_of(const device::token_choice& from) {
  PACELINE_CHECK(from.draft_tokens.size() == from.parents.size() &&
                     from.parents.size() <= device::max_draft_nodes,
                 "choose: a draft of " + std::to_string(from.draft_tokens.size()) + " nodes");
  std::vector<std::uint32_t> levels;
  for (const std::int32_t parent : from.parents) {
    PACELINE_CHECK(parent >= -1 && parent < static_cast<std::int32_t>(levels.size()),
                   "choose: a node stands before its parent");
    levels.push_back(parent < 0 ? 1 : levels[static_cast<std::size_t>(parent)] + 1);
  }
  return levels;
}

/// The row of node `node`; -1 is the root.
choice_row row_of(const device::token_choice& from, std::uint32_t request, std::int32_t node,
                  std::uint32_t level, std::vector<token_id>& paths) {
  choice_row row{request, level, {static_cast<std::uint32_t>(paths.size()), 0}};
  if (!from.penalises()) return row;
  row.path.size = level;
  paths.resize(paths.size() + level);
  for (auto at = paths.rbegin(); node >= 0; node = from.parents[static_cast<std::size_t>(node)])
    *at++ = from.draft_tokens[static_cast<std::size_t>(node)];
  return row;
}

void add_request(const device::token_choice& from, choice_arrays& to) {
  PACELINE_CHECK(from.first_row == to.rows.size(), "choose: rows that do not follow one another");
  PACELINE_CHECK(from.top_k <= device::max_top_k && (from.top_k > 0 || from.top_p == 1.0F),
                 "choose: top-k " + std::to_string(from.top_k) + " with top-p " + std::to_string(from.top_p));
  choice_request request;
  request.seed = from.seed;
  request.choice_index = from.choice_index;
  request.position = from.position;
  request.first_row = from.first_row;
  request.num_removing = from.num_removing;
  request.nodes = append(to.draft_tokens, from.draft_tokens);
  append(to.parents, from.parents);
  request.biases = {static_cast<std::uint32_t>(to.biases.size()),
                    static_cast<std::uint32_t>(from.biases.size())};
  for (const auto& [token, bias] : from.biases) to.biases.push_back({token, bias});
  if (from.penalises()) request.counts = append(to.counts, from.counts);
  if (from.num_removing > 0) request.removed = append(to.removed, from.removed);
  request.temperature = from.temperature;
  request.top_k = from.top_k;
  request.top_p = from.top_p;
  request.min_score = from.min_score;
  request.repetition_penalty = from.repetition_penalty;
  request.presence_penalty = from.presence_penalty;
  request.frequency_penalty = from.frequency_penalty;
  request.penalises = from.penalises();
  const auto number = static_cast<std::uint32_t>(to.requests.size());
  to.requests.push_back(request);
  const std::vector<std::uint32_t> levels = levels_of(from);
  to.rows.push_back(row_of(from, number, -1, 0, to.paths));
  for (std::size_t n = 0; n < levels.size(); ++n)
    to.rows.push_back(row_of(from, number, static_cast<std::int32_t>(n), levels[n], to.paths));
}

} // namespace

choice_batch::choice_batch(const device::choose_args& args) {
  PACELINE_CHECK(args.requests.size() == args.out.size() && args.vocab_size > 0,
                 "choose: " + std::to_string(args.out.size()) + " places for what " +
                     std::to_string(args.requests.size()) + " requests choose");
  choice_arrays arrays;
  for (const device::token_choice& request : args.requests) {
    add_request(request, arrays);
    edits_ = edits_ || request.penalises() || !request.biases.empty() || request.num_removing > 0;
  }
  PACELINE_CHECK(arrays.rows.size() == args.num_rows, "choose: " + std::to_string(args.num_rows) +
                                                          " rows for requests of " +
                                                          std::to_string(arrays.rows.size()));
  packer packed(bytes_);
  requests_at_ = packed.add(arrays.requests);
  rows_at_ = packed.add(arrays.rows);
  tokens_at_ = packed.add(arrays.draft_tokens);
  parents_at_ = packed.add(arrays.parents);
  biases_at_ = packed.add(arrays.biases);
  counts_at_ = packed.add(arrays.counts);
  removed_at_ = packed.add(arrays.removed);
  paths_at_ = packed.add(arrays.paths);
}

choice_view choice_batch::view_at(const std::byte* at) const noexcept {
  return {reinterpret_cast<const choice_request*>(at + requests_at_),
          reinterpret_cast<const choice_row*>(at + rows_at_),
          reinterpret_cast<const token_id*>(at + tokens_at_),
          reinterpret_cast<const std::int32_t*>(at + parents_at_),
          reinterpret_cast<const biased_token*>(at + biases_at_),
          reinterpret_cast<const device::penalised_token*>(at + counts_at_),
          reinterpret_cast<const token_id*>(at + removed_at_),
          reinterpret_cast<const token_id*>(at + paths_at_)};
}

} // namespace paceline::gpu

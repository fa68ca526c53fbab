#include "runtime/model/heads/lookahead_inputs.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/model/heads/files/head_tensors.hpp"
#include "runtime/model/loader/hugging_face/json_text.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace paceline::model {

namespace {

// Number of rows after each node so far.
using path_rows = std::map<std::vector<std::uint32_t>, std::uint32_t>;

constexpr std::uint32_t most_ranks = 16;

/// Refuses settings of an adapter that would need anything else than one row for each level, where each row
/// sees the rows before it.
void check_adapter(const json_node& adapter, std::uint32_t width) {
  const auto expect = [&](std::string_view key, std::uint32_t value) {
    const std::uint32_t found = adapter[key].uint_or(value);
    if (found != value)
      adapter[key].refuse("is " + std::to_string(found) + ", must be " + std::to_string(value),
                          errc::unsupported);
  };
  expect("virtual_tokens_per_special_token", 1);
  expect("num_exits", 1);
  for (const std::string_view key : {"use_custom_lm_head", "use_prefix_tuning"})
    if (adapter[key].flag_or(false)) adapter[key].refuse("must be false", errc::unsupported);
  if (adapter["vt_attention_type"].string_or("decoder") == "encoder")
    adapter["vt_attention_type"].refuse("is encoder, must be decoder or ensemble", errc::unsupported);
  const std::uint32_t trained_for = adapter["token_dim"].uint_or(width);
  if (trained_for != width)
    adapter["token_dim"].refuse("is " + std::to_string(trained_for) + ", the target's hidden size is " +
                                std::to_string(width));
}

/// One entry: [path, probability, rows].
lookahead_node node_of(const json_node& entry, std::uint32_t state, std::uint32_t num_rows,
                       const path_rows& before) {
  lookahead_node node;
  const json_node path = entry[0];
  path.require_array();
  for (std::size_t i = 0; i < path.size(); ++i) node.path.push_back(path[i].uint_below(most_ranks));
  node.num_rows = entry[2].uint();
  if (node.num_rows > num_rows)
    entry[2].refuse("is " + std::to_string(node.num_rows) + ", there are " + std::to_string(num_rows) +
                    " prompt tokens");
  if (node.path.empty() || node.path.size() > state)
    path.refuse("must have 1 to " + std::to_string(state) + " ranks");
  if (entry.failed()) return node;
  auto parent = node.path;
  parent.pop_back();
  if ((!parent.empty() && !before.contains(parent)) || before.contains(node.path))
    path.refuse("must stand once, behind its parent");
  return node;
}

/// {"1": [[path, probability, rows], ...], "2": ...}: a tree for each number of levels.
std::vector<std::vector<lookahead_node>> trees_of(const json_node& file, std::uint32_t num_rows) {
  std::vector<std::vector<lookahead_node>> trees;
  for (std::uint32_t state = 1; state <= num_rows; ++state) {
    const json_node list = file[std::to_string(state)];
    list.require_array();
    path_rows before;
    auto& tree = trees.emplace_back();
    for (std::size_t i = 0; i < list.size() && !file.failed(); ++i) {
      tree.push_back(node_of(list[i], state, num_rows, before));
      before[tree.back().path] = tree.back().num_rows;
    }
  }
  return trees;
}

/// Reads the files that accompany the tensors of parallel prompt decoding.
expected<void> read_adapter(const std::filesystem::path& directory, lookahead_inputs& made) {
  std::optional<error> failure;
  const auto config_path = directory / "adapter_config.json";
  auto config = read_json_file(config_path);
  if (!config) return std::move(config).error();
  const json_node adapter(*config, config_path.string(), failure, json_node::naming::key);
  check_adapter(adapter, made.width);
  const std::uint32_t stated = adapter["num_special_tokens"].uint_or(made.num_rows);
  if (stated != made.num_rows)
    adapter["num_special_tokens"].refuse("is " + std::to_string(stated) +
                                         ", tensor \"prompt_embeddings\" has " +
                                         std::to_string(made.num_rows) + " rows");
  if (failure) return *failure;
  const auto trees_path = directory / "sparse_trees.json";
  std::error_code ignored;
  if (!std::filesystem::exists(trees_path, ignored)) return {};
  auto trees = read_json_file(trees_path);
  if (!trees) return std::move(trees).error();
  made.trees = trees_of(json_node(*trees, trees_path.string(), failure), made.num_rows);
  if (failure) return *failure;
  return {};
}

} // namespace

expected<lookahead_inputs>
load_lookahead_inputs(const std::string& kind, const std::filesystem::path& directory, std::uint32_t width) {
  const bool is_adapter = kind == "ppd";
  const std::string name = is_adapter ? "prompt_embeddings" : "lookahead.weight";
  const auto name_of = [](std::string_view in_file) {
    for (const std::string_view prefix : {"base_model.", "model."})
      if (in_file.starts_with(prefix)) in_file.remove_prefix(prefix.size());
    return std::string(in_file);
  };
  auto tensors = head_tensors::open(directory, name_of);
  if (!tensors) return std::move(tensors).error();
  lookahead_inputs made{.num_rows = static_cast<std::uint32_t>(tensors->num_rows(name)), .width = width};
  if (made.num_rows == 0) tensors->refuse(name, "is missing, or has not two dimensions");
  if (made.num_rows > most_lookahead_rows)
    tensors->refuse(name, "has " + std::to_string(made.num_rows) + " rows, at most " +
                              std::to_string(most_lookahead_rows) + " are used");
  made.values = tensors->floats(name, made.num_rows, width);
  if (auto whole = tensors->check_all_taken(); !whole) return std::move(whole).error();
  if (is_adapter)
    if (auto read = read_adapter(directory, made); !read) return std::move(read).error();
  return made;
}

} // namespace paceline::model

#include "gpu/chain_plan.hpp"

#include "gpu/kernels/split_attention_params.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace paceline::gpu {
namespace {

/// The roles that a kernel's launch can have in draft_chain.
enum class stage_kind : std::uint8_t { none, rows, product, attention };

stage_kind kind_of(kernel_id kernel) {
  switch (kernel) {
  case kernel_id::embed:
  case kernel_id::rms_norm:
  case kernel_id::add_normed:
  case kernel_id::arrange_rows:
  case kernel_id::add_splits:
  case kernel_id::finish_heads:
  case kernel_id::rope:
  case kernel_id::kv_write:
  case kernel_id::merge_attention:
  case kernel_id::glu:
  case kernel_id::add:
  case kernel_id::gather:
  case kernel_id::edit_logits:
  case kernel_id::chunk_maxima:
  case kernel_id::choose_rows:
    return stage_kind::rows;
  case kernel_id::attend_f32:
  case kernel_id::attend_f16:
  case kernel_id::attend_bf16:
  case kernel_id::attend_q8:
    return stage_kind::attention;
  default:
    return kernel >= kernel_id::stream_q4_0 && kernel <= kernel_id::stream64_bf16 ? stage_kind::product
                                                                                  : stage_kind::none;
  }
}

/// Why a launch cannot be a stage; empty if it can.
std::string obstacle(const step_queue::command& launch, const void* params) {
  switch (kind_of(launch.kernel)) {
  case stage_kind::none:
    return "weights or ops that are not streamed (kernel " + std::to_string(static_cast<int>(launch.kernel)) +
           ")";
  case stage_kind::product:
    if (static_cast<const streamed_params*>(params)->x.num_tiles != 1) return "too many rows";
    break;
  case stage_kind::attention:
    if (static_cast<const attend_params*>(params)->queries_of_tile > chain_queries)
      return "more than " + std::to_string(chain_queries) + " query heads of a key-value head";
    break;
  case stage_kind::rows:
    break;
  }
  if (launch.num_bytes > stage_params_bytes)
    return "params of " + std::to_string(launch.num_bytes) + " bytes";
  if (launch.shape.threads != 32 && launch.shape.threads != chain_threads)
    return "blocks of " + std::to_string(launch.shape.threads) + " threads";
  return {};
}

chain_stage stage_of(const step_queue::command& launch, const void* params) {
  chain_stage stage{};
  std::memcpy(stage.params, params, launch.num_bytes);
  stage.blocks_x = launch.shape.blocks_x;
  stage.num_blocks = launch.shape.blocks_x * launch.shape.blocks_y;
  stage.kernel = launch.kernel;
  stage.by_warps = launch.shape.threads == 32;
  const std::uint32_t at_a_time = stage.by_warps ? chain_threads / 32 : 1;
  stage.is_small =
      kind_of(launch.kernel) == stage_kind::rows && stage.num_blocks <= small_stage_blocks * at_a_time;
  return stage;
}

} // namespace

expected<chain_plan> plan_chain(const step_queue::step& pass) {
  chain_plan plan;
  // Whether only block 0 has worked since the last barrier of all blocks. True at the beginning, which is
  // block 0's.
  bool only_first_block = true;
  for (const step_queue::command& command : pass.commands) {
    if (command.what == step_queue::command_kind::copy_in) continue;
    if (command.what != step_queue::command_kind::launch)
      return error(errc::unsupported, "a pass that tells the host something");
    const void* const params = pass.params_of(command);
    if (const std::string found = obstacle(command, params); !found.empty())
      return error(errc::unsupported, found);
    chain_stage stage = stage_of(command, params);
    stage.waits = !(only_first_block && stage.is_small) && !command.beside;
    only_first_block = stage.is_small && (only_first_block || stage.waits);
    plan.shared_bytes = std::max(plan.shared_bytes, (command.shape.shared_bytes + 15) / 16 * 16);
    plan.most_blocks = std::max(plan.most_blocks, stage.num_blocks);
    plan.stages.push_back(stage);
  }
  if (plan.stages.empty()) return error(errc::unsupported, "a pass that does nothing");
  return plan;
}

void spread(chain_plan& plan, std::uint32_t num_blocks) noexcept {
  std::uint32_t next = 0;
  for (chain_stage& stage : plan.stages) {
    if (stage.is_small) continue;
    stage.first_block = next;
    next = (next + stage.num_blocks) % num_blocks;
  }
}

} // namespace paceline::gpu

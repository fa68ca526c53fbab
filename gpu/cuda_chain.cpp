// Chains of passes on a GPU: the launches of a pass are recorded, and sent to the device as data.
#include "gpu/chain_plan.hpp"
#include "gpu/cuda_ops.hpp"
#include "runtime/base/check.hpp"

#include <algorithm>

namespace paceline::gpu {
namespace {

/// Blocks of a launch per multiprocessor: enough to read weights at the speed of memory, with room for the
/// work of other streams. An estimate, not measured.
constexpr std::uint32_t most_blocks_of_multiprocessor = 2;

} // namespace

/// Allocates device memory for the values of the current step that the stages read.
void cuda_ops::make_chain_memory(chain_steps& steps) {
  constexpr std::size_t rows = device::max_chain_rows, drafted = rows * device::max_chain_levels;
  steps_.make_room(chain_memory_,
                   rows * (sizeof(device::batch_entry) + sizeof(choice_row) + sizeof(token_id)) +
                       drafted * sizeof(token_id));
  steps.entries = reinterpret_cast<device::batch_entry*>(chain_memory_.data());
  steps.choosing = reinterpret_cast<choice_row*>(steps.entries + rows);
  steps.tokens = reinterpret_cast<token_id*>(steps.choosing + rows);
  steps.drafted = steps.tokens + rows;
}

/// Sends the block tables. Each step computes the places of its rows itself.
batch_view cuda_ops::send_chain_batch(const device::chain_args& args) {
  const auto [blocks, first_block] = tables_of(args.sequences);
  return {chain_->steps.entries, nullptr, send(std::span<const block_id>(blocks)),
          send(std::span<const std::uint32_t>(first_block))};
}

/// Makes the angles of all steps. Each step copies its own angles to `args.table`.
void cuda_ops::make_chain_table(const device::rope_table_args& args) {
  PACELINE_CHECK(chain_->num_tables < std::size(chain_->steps.tables), "a chain with many rotations");
  const std::size_t num_values = chain_->entries.size() * 2 * args.frequencies.size();
  const mirrored_piece piece = arena_.take(num_values * sizeof(float));
  write_angles(args, chain_->entries, reinterpret_cast<float*>(piece.host));
  steps_.copy_in(piece.device, piece.host, num_values * sizeof(float));
  chain_->steps.tables[chain_->num_tables++] = {
      reinterpret_cast<const float*>(piece.device), args.table,
      static_cast<std::uint32_t>(num_values / chain_->entries.size() * chain_->steps.num_rows)};
}

/// Number of blocks that can be resident at the same time; 0 if there is none.
std::uint32_t cuda_ops::blocks_together(std::uint32_t shared_bytes) {
  std::uint32_t of_multiprocessor = 0, num_multiprocessors = 0;
  steps_.on().require(steps_.on().api.count_together(of_multiprocessor, num_multiprocessors,
                                                     kernel_id::draft_chain, chain_threads, shared_bytes),
                      "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  return std::min(of_multiprocessor, most_blocks_of_multiprocessor) * num_multiprocessors;
}

/// Later chains of this stream's model are refused without another attempt.
bool cuda_ops::refuse_chain(const std::string& why) {
  chain_refused_ = true;
  forget_shared(); // recorded, but not sent
  if (steps_.on().say) steps_.on().say("drafts are made pass by pass: " + why);
  return false;
}

step_queue::step cuda_ops::hear_pass(const device::chain_args& args, const std::function<void()>& pass) {
  step_queue::step heard;
  do {
    steps_.begin_recording();
    forget_shared();
    chain_->num_tables = 0;
    chain_->batch = send_chain_batch(args);
    pass();
    heard = steps_.end_recording();
  } while (steps_.has_moved());
  return heard;
}

bool cuda_ops::chain(const device::chain_args& args, const std::function<void()>& pass) {
  PACELINE_CHECK(args.num_rows > 0 && args.num_rows <= device::max_chain_rows && !args.rows.empty() &&
                     args.rows.size() % args.num_rows == 0 && args.requests.size() == args.num_rows,
                 "a chain of " + std::to_string(args.rows.size()) + " rows");
  PACELINE_CHECK(args.num_levels <= device::max_chain_levels &&
                     args.out.size() == std::size_t{args.num_rows} * args.num_levels,
                 "a chain of " + std::to_string(args.num_levels) + " tokens");
  for (const device::chain_row& row : args.rows)
    PACELINE_CHECK(row.level < static_cast<std::int32_t>(args.num_levels), "a level beyond the chain's");
  if (!can_chain()) return false;
  chain_.emplace();
  const struct scope {
    std::optional<chain_in_hand>& chain;
    ~scope() { chain.reset(); }
  } guard{chain_};
  for (const device::chain_row& row : args.rows) chain_->entries.push_back(row.entry);
  chain_steps& steps = chain_->steps;
  steps.num_rows = args.num_rows;
  steps.num_steps = static_cast<std::uint32_t>(args.rows.size() / args.num_rows);
  steps.num_levels = args.num_levels;
  make_chain_memory(steps);
  const step_queue::step heard = hear_pass(args, pass);
  auto plan = plan_chain(heard);
  if (!plan) return refuse_chain(plan.error().message());
  const std::uint32_t num_blocks = std::min(blocks_together(plan->all_shared_bytes()), plan->most_blocks);
  if (num_blocks == 0) return refuse_chain("this GPU does not run so many blocks together");
  spread(*plan, num_blocks);
  for (const step_queue::command& command : heard.commands)
    if (command.what == step_queue::command_kind::copy_in)
      steps_.copy_in(command.to, command.from, command.num_bytes);
  steps.rows = send(args.rows);
  steps.out = reinterpret_cast<device::chain_choice*>(place_bytes(std::as_writable_bytes(args.out)));
  const std::uint32_t none_arrived = 0;
  const draft_chain_params params{send(std::span<const chain_stage>(plan->stages)),
                                  static_cast<std::uint32_t>(plan->stages.size()),
                                  num_blocks,
                                  plan->shared_bytes,
                                  plan->waits_at_end(),
                                  const_cast<std::uint32_t*>(send(std::span(&none_arrived, 1))),
                                  steps};
  steps_.launch_together(kernel_id::draft_chain, {num_blocks, 1, chain_threads, plan->all_shared_bytes()},
                         params);
  chain_.reset();
  deliver();
  return true;
}

} // namespace paceline::gpu

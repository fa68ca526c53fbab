#include "apps/bench/lone_model.hpp"

#include "config/device_name.hpp"
#include "runtime/device/fence.hpp"
#include "runtime/device/op_chain.hpp"
#include "runtime/device/ops.hpp"
#include "runtime/model/loader/model_source.hpp"
#include "runtime/model/transformer_loader.hpp"
#include "runtime/speculation/trees/token_tree.hpp"

namespace paceline::apps::bench {

expected<lone_model> lone_model::open(const model_choice& choice, std::uint32_t num_threads,
                                      std::uint32_t num_positions) {
  auto source = model::open_model(choice.model);
  if (!source) return std::move(source).error();
  const auto place = config::parse_device(choice.device);
  lone_model made;
  made.is_on_gpu_ = place && place->gpu;
  cpu::cpu_device_options cpu;
  cpu.partitions.resize(1);
  cpu.partitions[0].num_threads = made.is_on_gpu_ ? 1 : num_threads;
  auto devices = device_set::make(cpu);
  if (!devices) return std::move(devices).error();
  made.devices_ = std::make_unique<device_set>(*std::move(devices));
  const auto device = made.devices_->get(choice.device);
  if (!device) return device.error();
  made.device_ = *device;
  model::transformer_load_options load;
  load.kv_type = choice.kv_dtype;
  load.num_threads = num_threads;
  auto runs = model::load_transformer(source->config, source->weights, made.device_->weights(),
                                      made.device_->buffers(), load);
  if (!runs) return std::move(runs).error();
  made.runs_ = *std::move(runs);
  const std::uint32_t num_blocks = num_positions / block_size + 1;
  made.kv_ = made.runs_->make_kv_storage(num_blocks, block_size);
  made.kv_->make_states(speculation::token_tree::max_nodes + 1); // one for each row of a verification
  std::vector<block_id> blocks;
  for (std::uint32_t b = 0; b < num_blocks; ++b) blocks.emplace_back(b);
  made.passes_ = std::make_unique<model::made_up_passes>(*made.runs_, *made.kv_, std::move(blocks));
  made.stream_ = made.device_->make_stream("bench", 0);
  return made;
}

expected<void> lone_model::run(const device::program& work) const {
  const auto done = stream_->submit("bench", {}, work);
  done.wait();
  if (done.failure()) return *done.failure();
  return {};
}

void lone_model::pass(device::ops& ops, std::uint32_t begin, std::uint32_t end) const {
  passes_->run(ops, begin, end);
}

bool lone_model::draft(device::ops& ops, std::uint32_t begin, std::uint32_t length) const {
  std::vector<device::chain_row> rows;
  for (std::uint32_t level = 0; level < length; ++level) {
    device::chain_row row{passes_->row_at(begin + level), static_cast<std::int32_t>(level)};
    if (level > 0) row.entry.token = token_id{-1};
    rows.push_back(row);
  }
  const device::sequence_kv sequence{passes_->blocks()};
  device::token_choice request;
  request.position = token_position{begin + 1};
  request.temperature = 0;
  std::vector<device::chain_choice> out(length);
  const device::chain_args chain{.num_rows = 1,
                                 .rows = rows,
                                 .sequences = {&sequence, 1},
                                 .requests = {&request, 1},
                                 .num_levels = length,
                                 .out = out};
  if (runs_->run_chain(ops, chain, *kv_)) return true;
  for (std::uint32_t level = 0; level < length; ++level) pass(ops, begin + level, begin + level + 1);
  return false;
}

std::optional<std::chrono::nanoseconds> lone_model::device_time() const {
  const auto times = device_->times();
  if (times.num_steps == 0) return std::nullopt;
  return times.busy;
}

} // namespace paceline::apps::bench

#include "tests/support/cpu_model.hpp"

#include "runtime/model/loader/gguf/gguf_model.hpp"
#include "runtime/model/loader/model_source.hpp"

#include <stdexcept>
#include <utility>

namespace paceline::test {
namespace {

template <class T>
T value_or_throw(expected<T> result) {
  if (!result) throw std::runtime_error(result.error().message());
  return std::move(*result);
}

} // namespace

cpu_model::cpu_model(const model::gguf_file& file, const cpu_model_options& options) {
  const auto config = value_or_throw(model::read_gguf_config(file));
  *this = cpu_model(config, value_or_throw(model::read_gguf_weights(file, config)), options);
}

cpu_model::cpu_model(const model::model_config& config, const model::weights_source& weights,
                     const cpu_model_options& options) {
  cpu::cpu_device_options device_options;
  device_options.level = options.level;
  device_options.partitions.resize(1);
  device_options.partitions[0].num_threads = options.num_threads;
  device_ = value_or_throw(cpu::cpu_device::make(device_options));
  stream_ = device_->make_stream("test", 0);
  model::transformer_load_options load;
  load.kv_type = options.kv_type;
  load.num_threads = options.num_threads;
  model_ = value_or_throw(model::load_transformer(config, weights, *device_, *device_, load));
}

cpu_model cpu_model::open(const std::filesystem::path& path, const cpu_model_options& options) {
  const auto source = value_or_throw(model::open_model(path));
  return {source.config, source.weights, options};
}

void cpu_model::forward(const device::row_batch& batch, model::kv_storage& kv,
                        const model::forward_outputs& outputs) {
  run([&](device::ops& ops) { model_->forward(ops, batch, kv, outputs); });
}

void cpu_model::run(const device::program& work) {
  const device::fence done = stream_->submit("test", {}, work);
  done.wait();
  if (const auto failure = done.failure()) throw std::runtime_error(failure->message());
}

} // namespace paceline::test

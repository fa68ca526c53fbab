#include "runtime/model/transformer_loader.hpp"

#include "runtime/device/stored_block.hpp"
#include "runtime/model/loader/weights/fp8_weights.hpp"
#include "runtime/model/norm_outliers.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace paceline::model {
namespace {

using matrix_ptr = std::unique_ptr<const device::matrix>;
using matrix_set_ptr = std::unique_ptr<const device::matrix_set>;

/// Selected rows of a tensor: of every `period` rows, `count` rows from `begin` on.
struct row_pick {
  std::uint64_t begin = 0, count = 0, period = 0;
};

/// Rows of one tensor that form a part of a matrix, in this order.
struct matrix_part {
  std::vector<row_pick> picks;
  matrix_ptr* to = nullptr;
};

/// A matrix to pack, or the matrices in one tensor, or those of a layer's experts, and where it goes.
struct packing_job {
  packing_job(const weight_view& view, matrix_ptr& matrix) : from(&view), to(&matrix) {}
  packing_job(const weight_view& view, std::vector<matrix_part> of_view)
      : from(&view), parts(std::move(of_view)) {}
  packing_job(const expert_matrices& views, matrix_set_ptr& matrices) : experts(&views), set(&matrices) {}

  const weight_view* from = nullptr;
  matrix_ptr* to = nullptr;
  bool as_floats = false; ///< values of all types become F32
  std::vector<matrix_part> parts;
  const expert_matrices* experts = nullptr;
  matrix_set_ptr* set = nullptr;

  std::string name() const { return std::string(from ? from->name : (*experts)[0].name); }
};

/// A vector to upload, times a factor, and the pointer to be set to it.
struct vector_job {
  const weight_view* from;
  const float** to;
  float factor = 1;
};

struct load_plan {
  std::vector<packing_job> matrices;
  std::vector<vector_job> vectors;
};

void plan_experts(const weights_source& source, std::uint32_t l, layer_weights& layer, load_plan& plan) {
  layer.experts = std::make_unique<expert_weights>();
  if (const auto& bias = source.at(tensor_role::ffn_selection_bias, l); !bias.empty())
    plan.vectors.push_back({&bias, &layer.experts->selection_bias});
  // In float32, because a small difference of its logits selects other experts, and devices may round the
  // inputs of products with 16-bit weights.
  plan.matrices.emplace_back(source.at(tensor_role::ffn_router, l), layer.experts->router).as_floats = true;
  const std::pair<tensor_role, matrix_ptr*> shared[] = {
      {tensor_role::ffn_shared_scale, &layer.experts->shared_scale},
      {tensor_role::ffn_gate_shared, &layer.experts->shared_gate},
      {tensor_role::ffn_up_shared, &layer.experts->shared_up},
      {tensor_role::ffn_down_shared, &layer.experts->shared_down},
  };
  for (const auto& [role, to] : shared)
    if (!source.at(role, l).empty()) plan.matrices.emplace_back(source.at(role, l), *to);
  const std::pair<tensor_role, matrix_set_ptr*> sets[] = {
      {tensor_role::ffn_gate_experts, &layer.experts->gate},
      {tensor_role::ffn_up_experts, &layer.experts->up},
      {tensor_role::ffn_down_experts, &layer.experts->down},
  };
  for (const auto& [role, to] : sets) plan.matrices.emplace_back(source.experts(role, l), *to);
}

/// In a layer with an output gate, the rows of each head are followed by the rows of its gate.
void plan_queries(const model_config& config, const weight_view& view, layer_weights& layer,
                  load_plan& plan) {
  if (view.empty()) return;
  if (!config.attention_gate) return void(plan.matrices.emplace_back(view, layer.q));
  const std::uint64_t rows = config.head_dim;
  plan.matrices.emplace_back(view,
                             std::vector<matrix_part>{{{{0, rows, 2 * rows}}, &layer.q},
                                                      {{{rows, rows, 2 * rows}}, &layer.attention_gate}});
}

/// The products of a gated delta rule that some files store in one tensor. For each key head it has the rows
/// of query, key, values and gates, or those of betas and alphas.
void plan_delta_rule(const model_config& config, const weights_source& source, std::uint32_t l,
                     layer_weights& layer, load_plan& plan) {
  const weight_view& qkv = source.at(tensor_role::delta_qkv, l);
  const weight_view& beta = source.at(tensor_role::delta_beta, l);
  if (qkv.empty()) return;
  delta_weights& delta = layer.delta;
  const std::uint64_t key = config.delta.key_dim, shared = config.delta.num_values / config.delta.num_keys;
  const std::uint64_t values = shared * config.delta.value_dim, period = 2 * (key + values);
  if (config.packing.fuses_gate)
    plan.matrices.emplace_back(
        qkv, std::vector<matrix_part>{
                 {{{0, key, period}, {key, key, period}, {2 * key, values, period}}, &delta.qkv},
                 {{{2 * key + values, values, period}}, &delta.gate}});
  else
    plan.matrices.emplace_back(qkv, delta.qkv);
  if (config.packing.fuses_beta)
    plan.matrices.emplace_back(beta,
                               std::vector<matrix_part>{{{{0, shared, 2 * shared}}, &delta.beta},
                                                        {{{shared, shared, 2 * shared}}, &delta.alpha}});
  else
    plan.matrices.emplace_back(beta, delta.beta);
}

load_plan plan_load(const model_config& config, const weights_source& source, transformer_weights& weights) {
  load_plan plan;
  plan.matrices.emplace_back(source.at(tensor_role::token_embedding), weights.token_embedding);
  const weight_view& output = source.at(tensor_role::output);
  if (output.tensor.bytes.data() != source.at(tensor_role::token_embedding).tensor.bytes.data())
    plan.matrices.emplace_back(output, weights.output);
  plan.vectors.push_back({&source.at(tensor_role::output_norm), &weights.output_norm});
  if (config.logits_scale != 1) // the head's product is linear in its rows
    plan.vectors.push_back({&source.at(tensor_role::output_norm), &weights.logits_norm, config.logits_scale});
  for (std::uint32_t l = 0; l < source.num_layers(); ++l) {
    layer_weights& layer = weights.layers[l];
    const std::pair<tensor_role, matrix_ptr*> matrices[] = {
        {tensor_role::k, &layer.k},
        {tensor_role::v, &layer.v},
        {tensor_role::attention_output, &layer.attention_output},
        {tensor_role::conv_in, &layer.conv.in},
        {tensor_role::conv_out, &layer.conv.out},
        {tensor_role::delta_gate, &layer.delta.gate},
        {tensor_role::delta_alpha, &layer.delta.alpha},
        {tensor_role::delta_out, &layer.delta.out},
        {tensor_role::ffn_gate, &layer.ffn_gate},
        {tensor_role::ffn_up, &layer.ffn_up},
        {tensor_role::ffn_down, &layer.ffn_down},
    };
    const std::pair<tensor_role, const float**> vectors[] = {
        {tensor_role::attention_norm, &layer.attention_norm},
        {tensor_role::q_bias, &layer.q_bias},
        {tensor_role::k_bias, &layer.k_bias},
        {tensor_role::v_bias, &layer.v_bias},
        {tensor_role::q_norm, &layer.q_norm},
        {tensor_role::k_norm, &layer.k_norm},
        {tensor_role::attention_output_bias, &layer.attention_output_bias},
        {tensor_role::post_attention_norm, &layer.post_attention_norm},
        {tensor_role::ffn_norm, &layer.ffn_norm},
        {tensor_role::post_ffn_norm, &layer.post_ffn_norm},
        {tensor_role::conv_taps, &layer.conv.taps},
        {tensor_role::conv_in_bias, &layer.conv.in_bias},
        {tensor_role::conv_bias, &layer.conv.bias},
        {tensor_role::conv_out_bias, &layer.conv.out_bias},
        {tensor_role::delta_taps, &layer.delta.taps},
        {tensor_role::delta_dt_bias, &layer.delta.dt_bias},
        {tensor_role::delta_decay, &layer.delta.decay},
        {tensor_role::delta_norm, &layer.delta.norm},
    };
    plan_queries(config, source.at(tensor_role::q, l), layer, plan);
    plan_delta_rule(config, source, l, layer, plan);
    for (const auto& [role, to] : matrices)
      if (!source.at(role, l).empty()) plan.matrices.emplace_back(source.at(role, l), *to);
    if (!source.experts(tensor_role::ffn_gate_experts, l).empty()) plan_experts(source, l, layer, plan);
    for (const auto& [role, to] : vectors)
      if (!source.at(role, l).empty()) plan.vectors.push_back({&source.at(role, l), to});
  }
  return plan;
}

/// True if the weights of a norm, as stored in the file, emphasise a few values.
bool singles_out_values(const weight_view& norm) { return model::singles_out_values(norm.floats()); }

/// A block without a norm before it reads the residual stream, in which the norms after earlier blocks
/// emphasise values.
void choose_planes(const weights_source& source, transformer_weights& weights) {
  bool stream_singles_out = false;
  for (std::uint32_t l = 0; l < source.num_layers(); ++l) {
    const auto input_singles_out = [&](tensor_role norm) {
      return source.at(norm, l).empty() ? stream_singles_out : singles_out_values(source.at(norm, l));
    };
    weights.layers[l].precise_attention_inputs = input_singles_out(tensor_role::attention_norm);
    stream_singles_out |= singles_out_values(source.at(tensor_role::post_attention_norm, l));
    weights.layers[l].precise_ffn_inputs = input_singles_out(tensor_role::ffn_norm);
    stream_singles_out |= singles_out_values(source.at(tensor_role::post_ffn_norm, l));
  }
}

/// Reports the number of bytes read so far.
class progress_meter {
 public:
  progress_meter(const transformer_load_options& options, std::uint64_t total)
      : options_(options), total_(total) {}

  void add(std::uint64_t num_bytes) {
    const std::lock_guard lock(mutex_);
    done_ += num_bytes;
    if (options_.progress) options_.progress(done_, total_);
  }

 private:
  const transformer_load_options& options_;
  const std::uint64_t total_;
  std::mutex mutex_;
  std::uint64_t done_ = 0;
};

/// Packs all jobs on several threads. Each thread takes the next job when it is free. If several jobs fail,
/// the first one in order determines the error, so a file always gives the same message.
class parallel_packing {
 public:
  parallel_packing(std::vector<packing_job> jobs, const weights_source& source, device::weight_memory& memory,
                   progress_meter& meter)
      : jobs_(std::move(jobs)), source_(source), memory_(memory), meter_(meter), first_failed_(jobs_.size()) {
  }

  std::optional<error> run(std::uint32_t num_threads) {
    std::vector<std::jthread> threads;
    try {
      for (std::uint32_t t = 1; t < num_threads && t < jobs_.size(); ++t)
        threads.emplace_back([this] { work(); });
    } catch (const std::system_error&) { // fewer threads are enough
    }
    work();
    threads.clear();
    return std::move(failure_);
  }

 private:
  /// Combines codes and scales of FP8 in memory of the job. Other tensors are packed directly from the file.
  expected<matrix_ptr> pack(const weight_view& from) {
    if (from.scales == nullptr) return memory_.pack(from.name, from.tensor, done(), needed());
    if (auto read = source_.read(from.tensor.bytes); !read) return std::move(read).error();
    const std::vector<std::byte> blocks = f8_blocks(from);
    source_.release(from.tensor.bytes);
    device::tensor_view tensor = from.tensor;
    tensor.bytes = blocks;
    return memory_.pack(from.name, tensor, counted());
  }

  expected<matrix_ptr> pack_floats(const weight_view& from) {
    if (auto read = source_.read(from.tensor.bytes); !read) return std::move(read).error();
    std::vector<float> values(from.tensor.num_rows * from.tensor.num_cols);
    if (from.scales != nullptr)
      device::dequantize(from.tensor.type, f8_blocks(from), values);
    else
      device::dequantize(from.tensor.type, from.tensor.bytes, values);
    source_.release(from.tensor.bytes);
    meter_.add(from.stored_bytes());
    return memory_.pack(from.name, {device::tensor_type::f32, from.tensor.num_rows, from.tensor.num_cols,
                                    std::as_bytes(std::span(values))});
  }

  /// Packs matrices that share one tensor. Their rows are collected in memory of the job.
  expected<void> pack_parts(const weight_view& from, std::span<const matrix_part> parts) {
    if (auto read = source_.read(from.tensor.bytes); !read) return read;
    std::vector<std::byte> blocks;
    if (from.scales != nullptr) blocks = f8_blocks(from);
    const std::span<const std::byte> bytes = from.scales != nullptr ? blocks : from.tensor.bytes;
    const std::size_t row_bytes = bytes.size() / from.tensor.num_rows;
    for (const matrix_part& part : parts) {
      std::vector<std::byte> rows;
      for (const row_pick& pick : part.picks)
        for (std::uint64_t row = pick.begin; row < from.tensor.num_rows; row += pick.period) {
          const auto taken = bytes.subspan(row * row_bytes, pick.count * row_bytes);
          rows.insert(rows.end(), taken.begin(), taken.end());
        }
      auto packed = memory_.pack(
          from.name, {from.tensor.type, rows.size() / row_bytes, from.tensor.num_cols, rows}, counted());
      if (!packed) return std::move(packed).error();
      *part.to = std::move(*packed);
    }
    source_.release(from.tensor.bytes);
    return {};
  }

  /// Packs the tensors of a job.
  expected<void> do_job(const packing_job& job) {
    if (!job.parts.empty()) return pack_parts(*job.from, job.parts);
    if (job.experts == nullptr) {
      auto packed = job.as_floats ? pack_floats(*job.from) : pack(*job.from);
      if (!packed) return std::move(packed).error();
      *job.to = std::move(*packed);
      return {};
    }
    auto packed = pack_set(*job.experts, memory_, [this](const weight_view& one) { return pack(one); });
    if (!packed) return std::move(packed).error();
    *job.set = std::move(*packed);
    return {};
  }

  device::bytes_done done() {
    return [this](std::span<const std::byte> bytes) {
      source_.release(bytes);
      meter_.add(bytes.size());
    };
  }
  device::bytes_done counted() {
    return [this](std::span<const std::byte> bytes) { meter_.add(bytes.size()); };
  }
  device::bytes_needed needed() {
    return [this](std::span<const std::byte> bytes) { return source_.read(bytes); };
  }

  void work() noexcept {
    for (;;) {
      const std::size_t i = next_.fetch_add(1);
      if (i >= jobs_.size() || i > first_failed_.load()) return;
      try {
        if (auto packed = do_job(jobs_[i]); !packed) {
          fail(i, packed.error());
          return;
        }
      } catch (const std::bad_alloc&) {
        fail(i, error(errc::resource_exhausted, jobs_[i].name() + ": not enough memory"));
        return;
      }
    }
  }

  void fail(std::size_t job, error reason) {
    const std::lock_guard lock(mutex_);
    if (job >= first_failed_.load()) return;
    first_failed_ = job;
    failure_ = std::move(reason);
  }

  std::vector<packing_job> jobs_;
  const weights_source& source_;
  device::weight_memory& memory_;
  progress_meter& meter_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::size_t> first_failed_; ///< jobs_.size(): none
  std::mutex mutex_;
  std::optional<error> failure_;
};

/// Uploads all vectors into one buffer, each on its own cache lines.
std::unique_ptr<device::buffer> upload(const std::vector<vector_job>& jobs, device::buffer_memory& memory,
                                       progress_meter& meter) {
  constexpr std::uint64_t line = 64;
  const auto padded = [](const vector_job& job) {
    return (job.from->tensor.bytes.size() + line - 1) / line * line;
  };
  std::uint64_t total = 0;
  for (const vector_job& job : jobs) total += padded(job);
  auto buffer = memory.allocate(total);
  std::uint64_t offset = 0;
  for (const vector_job& job : jobs) {
    if (job.factor == 1) {
      buffer->upload(offset, job.from->tensor.bytes);
    } else {
      const auto values = job.from->floats();
      std::vector<float> scaled(values.begin(), values.end());
      for (float& value : scaled) value *= job.factor;
      buffer->upload(offset, std::as_bytes(std::span(scaled)));
    }
    *job.to = reinterpret_cast<const float*>(buffer->data() + offset);
    meter.add(job.from->tensor.bytes.size());
    offset += padded(job);
  }
  return buffer;
}

} // namespace

expected<std::unique_ptr<transformer>>
load_transformer(const model_config& config, const weights_source& source, device::weight_memory& weights,
                 device::buffer_memory& buffers, const transformer_load_options& options) {
  if (config.head_dim > device::max_head_dim)
    return error(errc::unsupported, "head_dim: " + std::to_string(config.head_dim) + " is above " +
                                        std::to_string(device::max_head_dim));
  try {
    transformer_weights packed;
    packed.layers.resize(config.num_layers);
    choose_planes(source, packed);
    load_plan plan = plan_load(config, source, packed);
    progress_meter meter(options, source.total_bytes());
    packed.vectors = upload(plan.vectors, buffers, meter);
    if (packed.logits_norm == nullptr) packed.logits_norm = packed.output_norm;
    if (auto failure =
            parallel_packing(std::move(plan.matrices), source, weights, meter).run(options.num_threads))
      return std::move(*failure);
    return std::make_unique<transformer>(config, std::move(packed), options.kv_type, buffers);
  } catch (const std::bad_alloc&) {
    return error(errc::resource_exhausted, "weights: not enough memory");
  }
}

} // namespace paceline::model

#include "gpu/cuda_ops.hpp"

#include "gpu/choice_batch.hpp"
#include "gpu/commit_batch.hpp"
#include "gpu/cuda_matrix.hpp"
#include "gpu/packer.hpp"
#include "gpu/pieces.hpp"
#include "gpu/product_inputs.hpp"
#include "runtime/base/check.hpp"
#include "runtime/device/conv_plan.hpp"
#include "runtime/device/op_add_normed.hpp"
#include "runtime/device/op_attention.hpp"
#include "runtime/device/op_elementwise.hpp"
#include "runtime/device/op_embed.hpp"
#include "runtime/device/op_gated_delta.hpp"
#include "runtime/device/op_qkv.hpp"
#include "runtime/device/op_rms_norm.hpp"
#include "runtime/device/op_short_conv.hpp"
#include "runtime/device/state_plan.hpp"

#include <cmath>
#include <utility>

namespace paceline::gpu {
namespace {

constexpr std::uint32_t warp_threads = 32;
/// Threads of a block in which each thread works on its own.
constexpr std::uint32_t row_threads = 128;

std::uint32_t count(std::size_t num) { return static_cast<std::uint32_t>(num); }

const cuda_matrix& weights_on(const device_context& on, const device::matrix* weights, const char* op) {
  const auto* const found = dynamic_cast<const cuda_matrix*>(weights);
  PACELINE_CHECK(found != nullptr && &found->on() == &on,
                 std::string(op) + ": the weights are not of " + on.name);
  return *found;
}

std::string level_of(const device_context& on) {
  switch (on.products) {
  case arithmetic::reference:
    return on.name + "/reference";
  case arithmetic::fast:
    return on.name + "/fast";
  case arithmetic::sixteen_bit:
    break;
  }
  return on.name + "/16-bit";
}

} // namespace

cuda_ops::cuda_ops(command_queue& queue, mirrored_pool& pool)
    : steps_(queue), pool_(pool), level_(level_of(queue.on())), arena_(pool), streamed_(steps_),
      experts_(steps_), split_attention_(steps_) {
  if (queue.on().products == arithmetic::fast) blas_.emplace(steps_);
}

// ---- launches

/// Called before anything that works on rows is launched. If a launch has tiles or slices of rows, its shape
/// does not show the number of rows.
void cuda_ops::expect_rows(std::size_t num_rows) {
  if (num_rows > step_queue::max_rows) steps_.go_on_directly();
}

template <class Params>
void cuda_ops::launch(kernel_id kernel, const launch_shape& shape, const Params& params) {
  expect_rows(shape.blocks_y); // rows or tiles of rows
  steps_.launch(kernel, shape, params);
}

/// One thread for each of the `width` values of each row.
template <class Params>
void cuda_ops::launch_over(kernel_id kernel, std::size_t width, std::size_t num_rows, const Params& params) {
  launch(kernel, {pieces(width, row_threads), count(num_rows), row_threads, 0}, params);
}

void cuda_ops::launch_product(const device::matmul_args& args, const device::matmul_output& output,
                              const quantised_rows& x) {
  const weight_rows& weights = weights_on(steps_.on(), output.weights, "matmul").rows();
  matmul_params params{};
  params.weights = weights;
  params.num_rows = args.num_rows;
  params.num_planes = args.two_planes ? 2 : 1;
  params.quantised = x;
  params.x = args.x;
  params.x_stride = args.x_stride;
  params.y = output.y;
  params.y_stride = output.y_stride;
  params.bias = output.bias;
  params.add = output.add;
  if (device::is_floating(weights.type)) {
    launch(kernel_id::matmul_float,
           {pieces(weights.num_rows, float_outputs), pieces(args.num_rows, float_rows), float_threads,
            sizeof(float_tile)},
           params);
    return;
  }
  launch(kernel_id::matmul_quantised,
         {pieces(weights.num_rows, matmul_warps),
          pieces(std::size_t{args.num_rows} * params.num_planes, matmul_chains), matmul_warps * warp_threads,
          matmul_warps * sizeof(chain_terms)},
         params);
}

void cuda_ops::matmul(const device::matmul_args& args) {
  bool any_quantised = false;
  streamed_outputs_.clear();
  for (const device::matmul_output& output : args.outputs) {
    const cuda_matrix& weights = weights_on(steps_.on(), output.weights, "matmul");
    PACELINE_CHECK(weights.num_cols() == args.num_cols, "matmul: rows of " + std::to_string(args.num_cols) +
                                                            " values with weights of " +
                                                            std::to_string(weights.num_cols()) + " columns");
    if (weights.is_streamed())
      streamed_outputs_.push_back({&weights.streamed(), &output});
    else
      any_quantised = any_quantised || !device::is_floating(weights.type());
  }
  if (args.num_rows == 0) return;
  expect_rows(args.num_rows);
  if (!streamed_outputs_.empty()) {
    if (is_large(args.num_rows))
      blas_->multiply(args, streamed_outputs_);
    else
      streamed_.multiply(args, streamed_outputs_);
  }
  const quantised_rows x =
      any_quantised ? quantise(steps_, activations_, {args.x, args.x_stride, args.num_rows, args.num_cols},
                               args.two_planes ? 2 : 1)
                    : quantised_rows{};
  for (const device::matmul_output& output : args.outputs)
    if (!weights_on(steps_.on(), output.weights, "matmul").is_streamed()) launch_product(args, output, x);
}

void cuda_ops::gated_matmul(const device::gated_matmul_args& args) {
  const cuda_matrix& gate = weights_on(steps_.on(), args.gate, "gated_matmul");
  const cuda_matrix& up = weights_on(steps_.on(), args.up, "gated_matmul");
  if (is_large(args.num_rows) || gate.num_cols() != args.num_cols ||
      !streamed_products::can_gate(gate.streamed(), up.streamed()))
    return ops::gated_matmul(args);
  expect_rows(args.num_rows);
  streamed_.multiply_gated(args, gate.streamed(), up.streamed());
}

void cuda_ops::qkv(const device::qkv_args& args) {
  streamed_qkv weights{};
  for (const auto& [from, to] :
       {std::pair(&args.q, &weights.q), std::pair(&args.k, &weights.k), std::pair(&args.v, &weights.v)}) {
    const cuda_matrix& matrix = weights_on(steps_.on(), from->weights, "qkv");
    if (!matrix.is_streamed() || matrix.num_cols() != args.num_cols) return ops::qkv(args);
    *to = matrix.streamed();
  }
  // The warp of a head in the fused kernel knows no other head's sum of squares.
  if (is_large(args.num_rows()) || args.norms_rows) return ops::qkv(args);
  PACELINE_CHECK(args.cells.head_dim <= device::max_head_dim,
                 "qkv: head_dim " + std::to_string(args.cells.head_dim));
  expect_rows(args.num_rows());
  streamed_.multiply_qkv(args, weights, send_batch(*args.batch));
}

void cuda_ops::embed(const device::embed_args& args) {
  const cuda_matrix& weights = weights_on(steps_.on(), args.table, "embed");
  const weight_rows& table = weights.rows();
  for (const token_id token : args.tokens)
    PACELINE_CHECK(token.value >= 0 && static_cast<std::uint32_t>(token.value) < table.num_rows,
                   "embed: token " + to_string(token) + " is outside the vocabulary");
  const token_id* const tokens = chain_ ? chain_->steps.tokens : send(args.tokens);
  launch_over(kernel_id::embed, pieces(table.num_cols, 32), args.tokens.size(),
              embed_params{table, weights.streamed(), tokens, args.out, args.out_stride, args.scale});
}

void cuda_ops::rms_norm(const device::rms_norm_args& args) {
  launch(
      kernel_id::rms_norm, {args.num_parts, args.num_rows, warp_threads, 0},
      rms_norm_params{args.x, args.x_stride, args.y, args.y_stride, args.weight, args.width, args.epsilon});
}

void cuda_ops::add_normed(const device::add_normed_args& args) {
  launch(kernel_id::add_normed, {1, args.num_rows, add_normed_threads, 0},
         add_normed_params{args.x, args.x_stride, args.hidden, args.hidden_stride, args.weight, args.width,
                           args.epsilon});
}

/// Uses sines and cosines of the host's library in double precision, so that all devices rotate by the same
/// angles. They are few: the pairs of one head.
void cuda_ops::write_angles(const device::rope_table_args& args, std::span<const device::batch_entry> rows,
                            float* out) {
  const std::size_t num_pairs = args.frequencies.size();
  for (const device::batch_entry& row : rows) {
    const double magnitude = args.magnitude_of(row);
    for (std::size_t i = 0; i < num_pairs; ++i) {
      const double angle = static_cast<double>(row.rotary_position().value) * args.frequencies[i];
      out[i] = static_cast<float>(magnitude * std::cos(angle));
      out[num_pairs + i] = static_cast<float>(magnitude * std::sin(angle));
    }
    out += 2 * num_pairs;
  }
}

void cuda_ops::rope_table(const device::rope_table_args& args) {
  if (chain_) return make_chain_table(args);
  const std::size_t num_bytes = args.rows.size() * 2 * args.frequencies.size() * sizeof(float);
  const mirrored_piece piece = arena_.take(num_bytes);
  write_angles(args, args.rows, reinterpret_cast<float*>(piece.host));
  steps_.copy_in(args.table, piece.host, num_bytes);
}

void cuda_ops::rope(const device::rope_args& args) {
  launch_over(kernel_id::rope, std::size_t{args.num_heads} * args.num_pairs, args.num_rows,
              rope_params{args.x, args.stride, args.table, args.num_heads, args.head_dim, args.num_pairs,
                          args.layout});
}

void cuda_ops::kv_write(const device::kv_write_args& args) {
  PACELINE_CHECK(args.layer.head_dim <= device::max_head_dim,
                 "kv_write: head_dim " + std::to_string(args.layer.head_dim));
  launch(kernel_id::kv_write, {args.layer.num_heads, count(args.batch->rows.size()), warp_threads, 0},
         kv_write_params{send_batch(*args.batch), args.layer, args.keys, args.values, args.stride});
}

void cuda_ops::kv_copy(const device::kv_copy_args& args) {
  const device::kv_layer& layer = args.layer;
  device::check_copies(args);
  if (args.copies.empty()) return;
  const std::size_t num_rows = args.from != nullptr ? args.copies.size() : 1;
  launch_over(kernel_id::kv_copy, std::size_t{layer.num_heads} * layer.head_dim, num_rows,
              kv_copy_params{layer, args.source(), send(args.copies), count(args.copies.size() / num_rows)});
}

void cuda_ops::attention(const device::attention_args& args) {
  PACELINE_CHECK(args.layer.head_dim <= device::max_head_dim,
                 "attention: head_dim " + std::to_string(args.layer.head_dim));
  expect_rows(args.batch->rows.size());
  if (is_sixteen_bit(steps_.on().products)) {
    const batch_view batch = send_batch(*args.batch);
    const std::vector<row_tile> tiles = tile_rows(*args.batch, shape_of(args));
    const row_tile* const there = send_tiles(tiles);
    if (chain_) return split_attention_.attend_steps(args, chain_->entries, tiles, there, batch);
    split_attention_.attend(args, tiles, there, batch);
    return;
  }
  launch(kernel_id::attention,
         {args.num_heads, count(args.batch->rows.size()), attention_threads, sizeof(split_memory)},
         attention_params{send_batch(*args.batch), args.layer, args.queries, args.query_stride, args.out,
                          args.out_stride, args.num_heads, args.scale, args.soft_cap, args.window});
}

void cuda_ops::glu(const device::glu_args& args) {
  launch_over(kernel_id::glu, args.width, args.num_rows,
              glu_params{args.gate, args.up, args.stride, args.out, args.out_stride, args.width, args.act});
}

void cuda_ops::add(const device::add_args& args) {
  launch_over(kernel_id::add, args.width, args.num_rows,
              add_params{args.y, args.y_stride, args.x, args.x_stride, args.width, args.gate,
                         args.gate_stride, args.scale});
}

void cuda_ops::gather(const device::gather_args& args) {
  const std::uint32_t* const rows =
      args.rows != nullptr ? send(std::span<const std::uint32_t>(args.rows, args.num_rows)) : nullptr;
  launch_over(kernel_id::gather, args.width, args.num_rows,
              gather_params{args.y, args.y_stride, args.x, args.x_stride, rows, args.width});
}

void cuda_ops::scatter(const device::scatter_args& args) {
  launch_over(kernel_id::scatter, args.width, args.num_rows,
              scatter_params{args.y, args.y_stride,
                             send(std::span<const std::uint32_t>(args.rows, args.num_rows)), args.x,
                             args.x_stride, args.width});
}

void cuda_ops::short_conv(const device::short_conv_args& args) {
  PACELINE_CHECK(args.num_taps >= 2 && args.num_taps <= device::max_conv_taps,
                 "short_conv: " + std::to_string(args.num_taps) + " taps");
  const std::vector<device::conv_input> inputs = device::plan_conv(args.rows, args.num_taps);
  std::vector<std::int32_t> slots;
  slots.reserve(args.rows.size());
  for (const device::row_state& row : args.rows)
    slots.push_back(row.write ? static_cast<std::int32_t>(row.write->value) : -1);
  std::vector<std::byte> bytes;
  packer packed(bytes);
  const std::size_t inputs_at = packed.add(inputs), slots_at = packed.add(slots);
  const std::byte* const at = send_once(std::move(bytes), sent_conv_);
  if (args.in_gate != nullptr)
    launch_over(kernel_id::gate_conv_inputs, args.width, args.rows.size(),
                gate_conv_inputs_params{args.u, args.in_gate, args.stride, args.width});
  launch_over(kernel_id::short_conv, args.width, args.rows.size(),
              short_conv_params{args.u, args.out_gate, args.out, args.stride, args.width, args.num_taps,
                                args.weights, args.bias, args.states.values, args.states.slot_stride,
                                reinterpret_cast<const device::conv_input*>(at + inputs_at),
                                reinterpret_cast<const std::int32_t*>(at + slots_at)});
}

void cuda_ops::gated_delta(const device::gated_delta_args& args) {
  const device::delta_heads& heads = args.heads;
  PACELINE_CHECK(heads.key_dim % 4 == 0 && heads.key_dim <= device::max_delta_keys,
                 "gated_delta: keys of " + std::to_string(heads.key_dim) + " values");
  PACELINE_CHECK(args.states.slot_stride >= heads.state_values(),
                 "gated_delta: a slot does not hold the state of a layer");
  const device::state_plan plan = device::plan_states(args.rows);
  std::vector<std::byte> bytes;
  packer packed(bytes);
  const std::size_t steps_at = packed.add(plan.steps), first_at = packed.add(plan.first);
  const std::byte* const at = send_once(std::move(bytes), sent_steps_);
  launch(kernel_id::gated_delta,
         {heads.num_values * heads.num_groups(), plan.num_texts(), delta_threads, sizeof(delta_memory)},
         gated_delta_params{heads, reinterpret_cast<const device::state_step*>(at + steps_at),
                            reinterpret_cast<const std::uint32_t*>(at + first_at), args.x, args.beta,
                            args.alpha, args.out, args.stride, args.decay, args.dt_bias, args.scale,
                            args.states});
}

const device::chosen_run* cuda_ops::choose(const device::choose_args& args) {
  if (args.requests.empty()) return nullptr;
  const choice_batch batch(args);
  choice_view view = batch.view_at(send(std::span<const std::byte>(batch.bytes())));
  if (chain_) view.rows = chain_->steps.choosing, view.paths = chain_->steps.drafted;
  const std::uint32_t num_chunks = pieces(args.vocab_size, choice_chunk);
  const std::size_t of_choices = args.num_rows * sizeof(row_choice);
  steps_.make_room(choices_, of_choices + std::size_t{args.num_rows} * num_chunks * sizeof(float));
  auto* const choices = reinterpret_cast<row_choice*>(choices_.data());
  auto* const maxima = reinterpret_cast<float*>(choices_.data() + of_choices);
  if (batch.edits())
    launch(kernel_id::edit_logits, {1, args.num_rows, choice_threads, sizeof(edit_memory)},
           edit_logits_params{view, args.logits, args.vocab_size});
  launch(kernel_id::chunk_maxima,
         {pieces(num_chunks, maxima_warps), args.num_rows, maxima_warps * warp_threads, 0},
         chunk_maxima_params{args.logits, maxima, args.vocab_size});
  launch(kernel_id::choose_rows, {1, args.num_rows, choice_threads, sizeof(choice_memory)},
         choose_rows_params{view, args.logits, maxima, choices, args.vocab_size});
  if (chain_) {
    chain_->steps.choices = choices;
    return nullptr; // a chain needs no verdicts: its results are its tokens
  }
  auto* const out = reinterpret_cast<device::chosen_run*>(place_bytes(std::as_writable_bytes(args.out)));
  launch_over(kernel_id::walk_drafts, args.requests.size(), 1,
              walk_drafts_params{view, choices, out, count(args.requests.size())});
  return out;
}

void cuda_ops::kv_commit(const device::kv_commit_args& args) {
  if (args.drafts.empty() || args.layers.empty()) return;
  const commit_batch batch(args);
  kv_commit_params params = batch.params_at(send(std::span<const std::byte>(batch.bytes())));
  params.batch = send_batch(*args.batch);
  params.chosen = args.chosen;
  launch(kernel_id::kv_commit,
         {batch.num_blocks(), count(args.drafts.size()), commit_threads, sizeof(commit_memory)}, params);
}

} // namespace paceline::gpu

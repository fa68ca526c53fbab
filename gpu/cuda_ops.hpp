#pragma once

#include "gpu/blas_products.hpp"
#include "gpu/expert_products.hpp"
#include "gpu/kernels/chain_params.hpp"
#include "gpu/mirrored_memory.hpp"
#include "gpu/owners.hpp"
#include "gpu/split_attention.hpp"
#include "gpu/step_queue.hpp"
#include "gpu/streamed_products.hpp"
#include "runtime/device/op_matmul.hpp"
#include "runtime/device/ops.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace paceline::gpu {

/// The ops of a GPU. Each op checks its arguments, copies the data that the host has (tokens, rows, block
/// tables) to the device, and launches kernels. Calls return before the work is done. Commands are recorded,
/// and they are issued when the host must wait for a result or the program ends (gpu/step_queue.hpp). One
/// object for each stream, used by the thread that issues the stream's programs.
class cuda_ops final : public device::ops {
 public:
  /// `queue` is the stream's CUDA stream. `queue` and `pool` must outlive the ops.
  cuda_ops(command_queue& queue, mirrored_pool& pool);

  std::string_view level() const noexcept override { return level_; }

  void matmul(const device::matmul_args& args) override;
  void gated_matmul(const device::gated_matmul_args& args) override;
  void expert_mixture(const device::expert_mixture_args& args) override;
  void embed(const device::embed_args& args) override;
  void rms_norm(const device::rms_norm_args& args) override;
  void add_normed(const device::add_normed_args& args) override;
  void rope_table(const device::rope_table_args& args) override;
  void rope(const device::rope_args& args) override;
  void kv_write(const device::kv_write_args& args) override;
  void qkv(const device::qkv_args& args) override;
  void kv_copy(const device::kv_copy_args& args) override;
  void attention(const device::attention_args& args) override;
  void glu(const device::glu_args& args) override;
  void add(const device::add_args& args) override;
  void gather(const device::gather_args& args) override;
  void scatter(const device::scatter_args& args) override;
  void short_conv(const device::short_conv_args& args) override;
  void gated_delta(const device::gated_delta_args& args) override;
  bool can_choose() const noexcept override { return true; }
  const device::chosen_run* choose(const device::choose_args& args) override;
  void kv_commit(const device::kv_commit_args& args) override;
  bool can_chain() const noexcept override {
    return steps_.on().products != arithmetic::reference && !chain_refused_;
  }
  bool chain(const device::chain_args& args, const std::function<void()>& pass) override;
  std::span<float> scratch(std::size_t num_values) override;
  float* place_for(std::span<float> host) override;
  void deliver() override;

  void begin_program() noexcept { steps_.begin_program(); }
  /// True if the host has waited for all commands of the program, so that the device has completed them.
  bool is_done() const noexcept { return steps_.is_done(); }
  /// Issues the recorded commands, at the end of a program that did not fail.
  void issue() { steps_.issue(); }
  /// Called at the end of a program: forgets the data that was sent or placed, and commands that were
  /// recorded but not issued. Returns the memory of that data, because copies may still use it.
  std::vector<std::unique_ptr<mirrored_pool::slab>> forget_sent();

 private:
  /// Host memory that receives results at `deliver`, and the memory in which the device leaves them.
  struct placed {
    std::span<std::byte> host;
    mirrored_piece at;
  };

  /// A chain whose pass is being recorded. The ops of the pass use these buffers instead of sending their
  /// arguments.
  struct chain_in_hand {
    std::vector<device::batch_entry> entries; ///< of all steps
    batch_view batch{};
    chain_steps steps{};
    std::size_t num_tables = 0;
  };

  /// Block tables of all sequences, concatenated.
  struct block_tables {
    std::vector<block_id> blocks;
    std::vector<std::uint32_t> first_block; ///< for each sequence
  };

  template <class T>
  const T* send(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    return reinterpret_cast<const T*>(send_bytes(std::as_bytes(values)));
  }
  const std::byte* send_bytes(std::span<const std::byte> bytes);
  std::byte* place_bytes(std::span<std::byte> host);
  static block_tables tables_of(std::span<const device::sequence_kv> sequences);
  batch_view send_batch(const device::row_batch& batch);
  const row_tile* send_tiles(const std::vector<row_tile>& tiles);
  void launch_product(const device::matmul_args& args, const device::matmul_output& output,
                      const quantised_rows& x);
  void expect_rows(std::size_t num_rows);
  static void write_angles(const device::rope_table_args& args, std::span<const device::batch_entry> rows,
                           float* out);
  void make_chain_memory(chain_steps& steps);
  batch_view send_chain_batch(const device::chain_args& args);
  void make_chain_table(const device::rope_table_args& args);
  std::uint32_t blocks_together(std::uint32_t shared_bytes);
  bool refuse_chain(const std::string& why);
  step_queue::step hear_pass(const device::chain_args& args, const std::function<void()>& pass);
  /// True if products of `num_rows` rows are computed by cuBLASLt (fast mode).
  bool is_large(std::uint32_t num_rows) const { return blas_ && num_rows >= blas_products::least_rows; }
  template <class Params>
  void launch(kernel_id kernel, const launch_shape& shape, const Params& params);
  template <class Params>
  void launch_over(kernel_id kernel, std::size_t width, std::size_t num_rows, const Params& params);

  /// Bytes, and the device address of their copy.
  struct sent_bytes {
    std::vector<std::byte> bytes;
    const std::byte* there = nullptr;
  };
  /// Returns the device address of a copy of `bytes`. Sends them only if they differ from those of `last`,
  /// which they then replace.
  const std::byte* send_once(std::vector<std::byte> bytes, sent_bytes& last);
  /// Forgets the tiles and the inputs of recurrent layers that were sent, so that they are sent again.
  void forget_shared();

  step_queue steps_;
  mirrored_pool& pool_;
  const std::string level_;
  mirrored_arena arena_;
  memory scratch_;
  memory activations_;  ///< quantised rows of the current matmul
  memory choices_;      ///< of the current rows of `choose`
  memory chain_memory_; ///< of the current step of a chain
  streamed_products streamed_;
  expert_products experts_;
  std::optional<blas_products> blas_;             ///< in fast mode
  std::vector<streamed_output> streamed_outputs_; ///< of the current matmul
  split_attention split_attention_;
  std::vector<placed> places_;
  // The batch sent last, which all layers of a pass share.
  std::vector<std::byte> sent_batch_;
  std::vector<std::byte> next_batch_;
  batch_view sent_view_{};
  // The tiles sent last, which the layers of a pass share.
  std::vector<row_tile> sent_tiles_;
  const row_tile* tiles_there_ = nullptr;
  // The same for recurrent layers: the inputs of their convolutions and of their delta rules.
  sent_bytes sent_conv_, sent_steps_;
  std::optional<chain_in_hand> chain_;
  bool chain_refused_ = false;
};

} // namespace paceline::gpu

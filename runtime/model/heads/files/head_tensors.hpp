#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/device/buffer.hpp"
#include "runtime/device/matrix.hpp"
#include "runtime/model/decoder_layer.hpp"
#include "runtime/model/heads/files/head_files.hpp"
#include "runtime/model/loader/weights/expert_tensors.hpp"
#include "runtime/model/loader/weights/tensor_role.hpp"
#include "runtime/model/model_config.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::model {

/// The device memory into which a head is loaded.
struct head_memory {
  device::weight_memory& weights;
  device::buffer_memory& buffers;
};

/// Maps a tensor's name in any published layout to the name that the loader uses. Returns "" if the
/// tensor belongs to another part of the checkpoint.
using name_of_tensor = std::function<std::string(std::string_view in_file)>;
/// Maps a name that the loader uses to the name in the file.
using name_in_file = std::function<std::string(std::string_view own)>;

/// The number under `key` in the directory's config.json; `value` if there is no file or no such key.
expected<double> setting_of(const std::filesystem::path& directory, std::string_view key, double value);
/// Error if the number under `key` in the directory's config.json differs from `value`, the only supported
/// number. An absent file or key is no error.
expected<void> expect_setting(const std::filesystem::path& directory, std::string_view key, double value);

/// The tensors of a draft head's files. The caller takes them by name, one after another. Tensors that
/// were never taken are an error in the end, because they could change what the head computes.
///
/// Matrices are packed as stored, or quantised to `format` if they are not quantised already. Matrices in FP8
/// (F8_E4M3 with scales in other tensors, as "quantization_config" says) count as not quantised. `upload`
/// uploads all vectors together. The object keeps the first error, which names file and tensor. After an
/// error all results are empty.
class head_tensors {
 public:
  /// `format`: Q8_0 or Q4_0, for matrices whose rows are whole blocks of it; nullopt: matrices stay as
  /// stored.
  static expected<head_tensors> open(const std::filesystem::path& path, const name_of_tensor& name_of,
                                     device::weight_memory& weights,
                                     std::optional<device::tensor_type> format = {});
  /// For tensors that stay on the host. `matrix` and the other functions that pack must not be called.
  static expected<head_tensors> open(const std::filesystem::path& path, const name_of_tensor& name_of);
  /// The same for tensors of files that are already open; `path` is used in errors.
  static expected<head_tensors> of(std::vector<head_tensor> found, const std::filesystem::path& path,
                                   const name_of_tensor& name_of, device::weight_memory& weights,
                                   std::optional<device::tensor_type> format = {});

  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// True if another part of the checkpoint has a tensor with this name.
  bool has_beside(const std::string& name_in_file) const { return others_.contains(name_in_file); }
  /// True if a tensor that was not taken yet has a name that begins with `begin` and ends with `end`.
  bool has_any(std::string_view begin, std::string_view end) const;
  /// Rows of a tensor of two dimensions; 0 if there is none.
  std::uint64_t num_rows(const std::string& name) const;
  /// Values of a tensor; 0 if there is none.
  std::uint64_t num_values(const std::string& name) const;
  /// Number of layers "layers.0.", "layers.1.", ... with tensors.
  std::uint32_t num_layers() const;

  /// A matrix of [rows][cols]. With `chosen`: only these rows of it, in this order.
  std::unique_ptr<const device::matrix> matrix(const std::string& name, std::uint64_t rows,
                                               std::uint64_t cols, std::span<const token_id> chosen = {});
  /// A vector; `to` is set by `upload`. Left null if the tensor is absent and `required` is false.
  void vector(const std::string& name, std::uint64_t size, const float*& to, bool required = true);
  /// A vector of `size` equal values.
  void constant(std::uint64_t size, float value, const float*& to);
  /// Sets a number that is added to every vector whose name contains "norm": it is 1 for files that store
  /// w - 1 in place of a norm's factor w.
  void set_norm_offset(float offset) { norm_offset_ = offset; }
  /// Sets the function that gives the name in files for errors about a missing tensor. Without this
  /// call, such errors name the tensor as the loader does.
  void set_file_names(name_in_file names) { file_names_ = std::move(names); }
  /// The query projection of an attention with an output gate, [2 * q_size][cols]: for each head the rows of
  /// the query, then those of the gate.
  void gated_queries(const std::string& name, const model_config& config, std::uint64_t cols,
                     layer_weights& to);
  /// A matrix that the file stores in one tensor with others: the rows of the first part, then the rows of
  /// the second, and so on.
  struct stacked_part {
    std::uint64_t rows;
    std::unique_ptr<const device::matrix>& to;
  };
  void stacked(const std::string& name, std::uint64_t cols, std::initializer_list<stacked_part> parts);
  /// int64 values [size].
  std::vector<std::int64_t> integers(const std::string& name, std::uint64_t size);
  /// The values of a tensor of [rows][cols], row by row.
  std::vector<float> floats(const std::string& name, std::uint64_t rows, std::uint64_t cols);
  /// Drops a tensor that the head does not need.
  void ignore(const std::string& name) { tensors_.erase(name); }
  /// Drops tensor `name` if it equals tensor `of`. `of` may belong to another part of the checkpoint; `of` is
  /// then the name in the file. False if they differ or one of them is absent.
  bool ignore_copy(const std::string& name, const std::string& of);

  /// Takes the tensors of a Llama-like layer, "PREFIXself_attn.q_proj.weight" and so on. `input_size`: width
  /// of the input of the query, key and value projections. Projections may be fused ("qkv_proj",
  /// "gate_up_proj"). These are taken if the file has them: biases (of queries, keys and values: all or
  /// none), QK norms (both or none) and the norm before attention (`attention_norm`). `upload` sets the
  /// vectors in `to`. `is_gated`: the query projection includes an output gate (`gated_queries`), and there
  /// must be QK norms. If the config's layers have experts, the feed-forward block is not taken here: call
  /// `mixture`.
  void layer(const std::string& prefix, const model_config& config, std::uint32_t input_size,
             layer_weights& to, bool is_gated = false);
  /// Takes the mixture of experts of a layer, with the sizes of the config's layer 0. Router and shared
  /// expert have their Hugging Face names, "PREFIXmlp.gate.weight" and so on. The experts have the names of
  /// `naming`, after `prefix`. The router and the gate of the shared expert are packed in F32.
  void mixture(const std::string& prefix, tensor_naming naming, const model_config& config,
               layer_weights& to);

  /// Error: the first one so far, or else a tensor that was not taken.
  expected<void> check_all_taken();
  /// The same check; then uploads the vectors and returns their memory.
  expected<std::unique_ptr<device::buffer>> upload(device::buffer_memory& memory);

  /// Records the error that `tensor` breaks `rule`, unless there is an error already.
  void refuse(const std::string& tensor, const std::string& rule);
  /// Refuses a head without tensor `name`, which is the loader's name. `why`, if not empty, follows
  /// "is missing" in the message.
  void refuse_missing(const std::string& name, const std::string& why = "");

 private:
  static expected<head_tensors> named(std::vector<head_tensor> found, const std::filesystem::path& path,
                                      const name_of_tensor& name_of);

  const head_tensor* scales_of(const std::string& own, const std::string& weight) const;
  expected<void> claim_scales(const std::filesystem::path& path);

  struct pending_vector {
    std::vector<float> values;
    const float** to;
  };

  /// Packs a matrix in the requested format. `name`: name of its tensor.
  expected<std::unique_ptr<const device::matrix>> packed(const std::string& name, device::tensor_view view);
  std::unique_ptr<const device::matrix> pack(const head_tensor& tensor, std::uint64_t rows,
                                             std::uint64_t cols, std::span<const std::byte> bytes);
  /// Takes a matrix of a floating-point type and packs it in F32.
  std::unique_ptr<const device::matrix> floating_matrix(const std::string& name, std::uint64_t rows,
                                                        std::uint64_t cols);
  void feed_forward(const std::string& prefix, const model_config& config, layer_weights& to);
  /// A tensor with matrices of experts.
  struct expert_tensor {
    expert_part part;
    head_tensor tensor;
  };
  std::vector<expert_tensor> take_experts(const std::string& prefix, tensor_naming naming,
                                          const model_config& config);
  std::unique_ptr<const device::matrix_set> pack_experts(const expert_matrices& matrices,
                                                         std::span<const expert_tensor> tensors);
  /// True if the type is F32, F16 or BF16, or with `may_be_quantised` a quantised type or FP8. Refuses the
  /// tensor otherwise.
  bool has_weights(const head_tensor& tensor, bool may_be_quantised);
  std::string file_name(const std::string& own) const { return file_names_ ? file_names_(own) : own; }
  error broken(const std::string& tensor, const std::string& rule) const;
  /// Returns the value. If there is none, keeps the error and returns an empty value.
  template <class T>
  T keep(expected<T> value) {
    if (value) return *std::move(value);
    if (!failure_) failure_ = std::move(value).error();
    return {};
  }
  std::optional<head_tensor> take(const std::string& name, bool required, std::uint64_t rows,
                                  std::uint64_t cols);
  /// The same for weights (`has_weights`).
  std::optional<head_tensor> take_weights(const std::string& name, bool required, std::uint64_t rows,
                                          std::uint64_t cols, bool may_be_quantised);

  std::string path_; ///< of the head
  std::map<std::string, head_tensor> tensors_;
  std::map<std::string, head_tensor> others_; ///< of other parts of the checkpoint, by their names there
  std::vector<pending_vector> vectors_;
  device::weight_memory* weights_ = nullptr;
  std::optional<device::tensor_type> format_;
  float norm_offset_ = 0;
  name_in_file file_names_; ///< empty: the same names
  std::optional<error> failure_;
};

} // namespace paceline::model

#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/device/buffer.hpp"
#include "runtime/device/matrix.hpp"
#include "runtime/model/decoder_layer.hpp"
#include "runtime/model/heads/head_files.hpp"
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
#include <vector>

namespace paceline::model {

/// Where a head is loaded to.
struct head_memory {
  device::weight_memory& weights;
  device::buffer_memory& buffers;
};

/// Puts a tensor's name into the form that the loader asks for, whatever the dialect of the file. Empty: the
/// tensor is of another part of the checkpoint.
using name_of_tensor = std::function<std::string(std::string_view in_file)>;

/// Number `key` of the directory's config.json; `value` if there is no file or no such key.
expected<double> setting_of(const std::filesystem::path& directory, std::string_view key, double value);
/// Error unless number `key` of the directory's config.json has the only supported value. No file, or no such
/// key: it has.
expected<void> expect_setting(const std::filesystem::path& directory, std::string_view key, double value);

/// The tensors of a draft head's files, by name, taken one after another. What nobody has taken in the end is
/// refused: it would change what the head computes.
///
/// Matrices are packed as stored, or quantised unless they are. Vectors are collected and uploaded together
/// by `upload`. The first error is kept, named after file and tensor; after one, everything that is taken is
/// empty.
class head_tensors {
 public:
  /// `format`: of matrices whose rows are whole blocks of it, Q8_0 or Q4_0; nullopt: as stored.
  static expected<head_tensors> open(const std::filesystem::path& path, const name_of_tensor& name_of,
                                     device::weight_memory& weights,
                                     std::optional<device::tensor_type> format = {});
  /// For tensors that stay on the host: no matrix may be taken.
  static expected<head_tensors> open(const std::filesystem::path& path, const name_of_tensor& name_of);
  /// The same of files that are open; `path` is for errors.
  static expected<head_tensors> of(std::vector<head_tensor> found, const std::filesystem::path& path,
                                   const name_of_tensor& name_of, device::weight_memory& weights,
                                   std::optional<device::tensor_type> format = {});

  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// Whether another part of the checkpoint has a tensor of this name.
  bool has_beside(const std::string& name_in_file) const { return others_.contains(name_in_file); }
  /// Whether there is a tensor whose name begins and ends so, and was not taken yet.
  bool has_any(std::string_view begin, std::string_view end) const;
  /// Rows of a tensor of two dimensions; 0 if there is none.
  std::uint64_t num_rows(const std::string& name) const;
  /// Values of a tensor; 0 if there is none.
  std::uint64_t num_values(const std::string& name) const;
  /// Number of layers "layers.0.", "layers.1.", ... with tensors.
  std::uint32_t num_layers() const;

  /// A matrix of [rows][cols]. With `chosen`: of these rows of it only, in their order.
  std::unique_ptr<const device::matrix> matrix(const std::string& name, std::uint64_t rows,
                                               std::uint64_t cols, std::span<const token_id> chosen = {});
  /// A vector; `to` is set by `upload`. Left null if the tensor is absent and `required` is false.
  void vector(const std::string& name, std::uint64_t size, const float*& to, bool required = true);
  /// A vector of `size` equal values.
  void constant(std::uint64_t size, float value, const float*& to);
  /// Norms in the file hold the factor minus this: added to every vector whose name has "norm".
  void set_norm_offset(float offset) { norm_offset_ = offset; }
  /// The query projection of an attention with an output gate, [2 * q_size][cols]: for each head the rows of
  /// the query, then those of the gate.
  void gated_queries(const std::string& name, const model_config& config, std::uint64_t cols,
                     layer_weights& to);
  /// Matrices that the file stores below each other as one.
  struct stacked_part {
    std::uint64_t rows;
    std::unique_ptr<const device::matrix>& to;
  };
  void stacked(const std::string& name, std::uint64_t cols, std::initializer_list<stacked_part> parts);
  /// int64 values [size].
  std::vector<std::int64_t> integers(const std::string& name, std::uint64_t size);
  /// The values of a tensor of [rows][cols], row by row.
  std::vector<float> floats(const std::string& name, std::uint64_t rows, std::uint64_t cols);
  /// A tensor that is of no use.
  void ignore(const std::string& name) { tensors_.erase(name); }
  /// Ignores tensor `name` if it equals tensor `of`, which may be of another part of the checkpoint (then by
  /// its name in the file). False: it does not, or one of them is absent.
  bool ignore_copy(const std::string& name, const std::string& of);

  /// The tensors of a Llama-like layer, "PREFIXself_attn.q_proj.weight" and so on, whose queries, keys and
  /// values read `input_size` values, in one matrix ("qkv_proj", "gate_up_proj") or several; biases (of
  /// queries, keys and values: all or none), QK norms (both or none) and the norm before attention
  /// (`attention_norm`) where they are there. `to` is set by `upload`, too. `may_be_gated`: queries of twice
  /// the rows have an output gate (`gated_queries`), and QK norms.
  void layer(const std::string& prefix, const model_config& config, std::uint32_t input_size,
             layer_weights& to, bool may_be_gated = false);

  /// Refuses what was not taken. Error: the first one.
  expected<void> check_all_taken();
  /// The same; uploads the vectors.
  expected<std::unique_ptr<device::buffer>> upload(device::buffer_memory& memory);

  void refuse(const std::string& tensor, const std::string& rule);

 private:
  static expected<head_tensors> named(std::vector<head_tensor> found, const std::filesystem::path& path,
                                      const name_of_tensor& name_of);

  struct pending_vector {
    std::vector<float> values;
    const float** to;
  };

  std::unique_ptr<const device::matrix> pack(const head_tensor& tensor, std::uint64_t rows,
                                             std::uint64_t cols, std::span<const std::byte> bytes);
  std::optional<head_tensor> take(const std::string& name, bool required, std::uint64_t rows,
                                  std::uint64_t cols);
  /// The same of a tensor of weights, of F32, F16 or BF16, or if `may_be_quantised` of a quantised type.
  std::optional<head_tensor> take_weights(const std::string& name, bool required, std::uint64_t rows,
                                          std::uint64_t cols, bool may_be_quantised);

  std::string path_; ///< of the head
  std::map<std::string, head_tensor> tensors_;
  std::map<std::string, head_tensor> others_; ///< of other parts of the checkpoint, by their names there
  std::vector<pending_vector> vectors_;
  device::weight_memory* weights_ = nullptr;
  std::optional<device::tensor_type> format_;
  float norm_offset_ = 0;
  std::optional<error> failure_;
};

} // namespace paceline::model

#include "runtime/model/loader/weights/weights_source.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/quote.hpp"
#include "runtime/device/stored_block.hpp"
#include "runtime/model/loader/families/family_traits.hpp"
#include "runtime/model/loader/families/fused_tensors.hpp"
#include "runtime/model/loader/partial_file.hpp"
#include "runtime/model/loader/text_part.hpp"
#include "runtime/model/loader/weights/expert_tensors.hpp"
#include "runtime/model/loader/weights/mtp_names.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

namespace paceline::model {

namespace {

using device::tensor_type;

/// The parts of a tensor's name: "blk.12.attn_q.weight" is role q of layer 12.
struct parsed_name {
  tensor_role role;
  std::uint32_t layer = 0;
  std::optional<expert_part> experts = std::nullopt; ///< for roles of experts
  const fused_tensor* fused = nullptr;               ///< for a tensor with the rows of several roles
};

/// Parses `name`, which is a name in a model without other parts.
std::optional<parsed_name> parse_name(std::string_view name, tensor_naming naming,
                                      const model_config& config) {
  parsed_name parsed{};
  const auto prefix = layer_prefix(naming);
  const bool in_layer = name.starts_with(prefix);
  if (in_layer) {
    name.remove_prefix(prefix.size());
    const auto layer = take_number(name);
    if (!layer) return std::nullopt;
    parsed.layer = *layer;
  }
  if (naming == tensor_naming::gguf) name = usual_gguf_name(name, config.arch);
  if (const auto part = parse_expert_part(name, naming, config);
      in_layer && part && config.has_experts(parsed.layer)) {
    parsed.role = part->role;
    parsed.experts = part;
    return parsed;
  }
  if (in_layer) parsed.fused = fused_tensor_named(name, naming, config);
  if (parsed.fused != nullptr) {
    parsed.role = parsed.fused->roles.front();
    return parsed;
  }
  for (std::size_t i = 0; i < num_tensor_roles; ++i) {
    parsed.role = static_cast<tensor_role>(i);
    if (is_layer_role(parsed.role) != in_layer || is_expert_role(parsed.role) ||
        shape_of(config, parsed.role, parsed.layer).rows == 0)
      continue;
    if (tensor_name(parsed.role, naming, config) == name) return parsed;
  }
  return std::nullopt;
}

/// True for tensors that may be present and are ignored: those that the loader computes itself, and a stored
/// copy of a tied head.
bool is_redundant(std::string_view name, tensor_naming naming, const model_config& config) noexcept {
  if (naming == tensor_naming::gguf)
    return name == "rope_freqs.weight" || name == "rope_factors_long.weight" ||
           name == "rope_factors_short.weight";
  return name.ends_with(".rotary_emb.inv_freq") || (config.tied_embeddings && name == "lm_head.weight");
}

bool is_finite(float value) noexcept { return std::isfinite(value); }
bool is_decay(float value) noexcept { return std::isfinite(value) && value <= 0; }

bool is_float_type(tensor_type type) noexcept {
  return type == tensor_type::f32 || type == tensor_type::f16 || type == tensor_type::bf16;
}

/// The fewest tensors that can hold a layer's weights.
std::size_t num_tensors(const model_config& config, std::uint32_t layer) noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < num_tensor_roles; ++i) {
    const auto role = static_cast<tensor_role>(i);
    const fused_tensor* const fused = fused_tensor_of(role, config);
    if (fused != nullptr && fused->roles.front() != role) continue;
    if (is_layer_role(role) && shape_of(config, role, layer).rows != 0) ++count;
  }
  return config.has_experts(layer) ? count - 1 : count; // one tensor may hold gate and up of all experts
}

} // namespace

/// Assigns a file's tensors to roles.
class weights_builder {
 public:
  weights_builder(const model_config& config, tensor_naming naming, std::string_view file,
                  std::vector<std::shared_ptr<const partial_file>> files, const skipped_tensors& skipped)
      : config_(config), naming_(naming), file_(file) {
    source_.files_ = std::move(files);
    source_.skipped_ = skipped;
    source_.layers_.resize(config.num_layers);
    source_.experts_.resize(config.num_layers);
    experts_.resize(config.num_layers);
  }

  expected<void> add(const weight_view& tensor) {
    const std::string name =
        naming_ == tensor_naming::hugging_face ? name_alone(tensor.name) : std::string(tensor.name);
    if (is_mtp_tensor(name, naming_, config_)) {
      ++source_.num_mtp_tensors_;
      return {};
    }
    if (name != tensor.name && nested_example_.empty()) nested_example_ = tensor.name;
    const auto parsed = parse_name(name, naming_, config_);
    if (!parsed) {
      if (is_redundant(name, naming_, config_)) return {};
      return failure(tensor.name,
                     "has no meaning in a model of architecture " + std::string(to_string(config_.arch)),
                     errc::unsupported);
    }
    if (is_layer_role(parsed->role) && parsed->layer >= config_.num_layers)
      return failure(tensor.name, "belongs to layer " + std::to_string(parsed->layer) + " of a model with " +
                                      std::to_string(config_.num_layers) + " layers");
    if (parsed->experts) {
      source_.total_bytes_ += tensor.stored_bytes();
      return experts_[parsed->layer].add(*parsed->experts, tensor, config_, parsed->layer, file_);
    }
    if (parsed->fused != nullptr) return add_fused(*parsed, tensor);
    // Hugging Face stores taps as [channels][1][num_taps]: one matrix of one row for each channel.
    if (tensor.num_matrices != 1 && !is_taps_role(parsed->role))
      return failure(tensor.name, "must have 1 or 2 dimensions, has 3", errc::unsupported);
    const auto [rows, cols] = shape_of(config_, parsed->role, parsed->layer);
    if (tensor.tensor.num_rows != rows || tensor.tensor.num_cols != cols)
      return failure(tensor.name, "must have the shape " + shape_text(std::array{rows, cols}) + ", has " +
                                      shape_text(std::array{tensor.tensor.num_rows, tensor.tensor.num_cols}));
    auto& place = slot(parsed->role, parsed->layer);
    if (!place.empty()) return failure(tensor.name, "occurs twice");
    place = tensor;
    source_.total_bytes_ += tensor.stored_bytes();
    if (parsed->role == tensor_role::ffn_router && !device::is_floating(tensor.tensor.type))
      return failure(tensor.name, "must be of a floating-point type: it selects the experts",
                     errc::unsupported);
    return is_matrix_role(parsed->role) ? expected<void>() : convert_vector(parsed->role, place);
  }

  expected<weights_source> finish(std::shared_ptr<const void> owner) {
    for (std::size_t i = 0; i < num_tensor_roles; ++i) {
      const auto role = static_cast<tensor_role>(i);
      const fused_tensor* const fused = fused_tensor_of(role, config_);
      const std::string name(fused != nullptr ? fused->name(naming_) : tensor_name(role, naming_, config_));
      const std::uint32_t count = is_layer_role(role) ? config_.num_layers : 1;
      for (std::uint32_t layer = 0; layer < count; ++layer) {
        if (shape_of(config_, role, layer).rows == 0) continue;
        const std::string full = name_like(is_layer_role(role) ? std::string(layer_prefix(naming_)) +
                                                                     std::to_string(layer) + "." + name
                                                               : name,
                                           nested_example_);
        if (is_expert_role(role)) {
          auto all = experts_[layer].take(role, config_, full, file_);
          if (!all) return std::move(all).error();
          source_.experts_[layer][expert_index(role)] = *std::move(all);
        } else if (slot(role, layer).empty()) {
          return failure(full, "is missing");
        }
      }
    }
    if (config_.tied_embeddings) slot(tensor_role::output, 0) = slot(tensor_role::token_embedding, 0);
    source_.owner_ = std::move(owner);
    return std::move(source_);
  }

 private:
  error failure(std::string_view tensor, const std::string& rule, errc code = errc::invalid_file) const {
    return error(code, std::string(file_) + ": tensor " + quote(tensor) + " " + rule);
  }

  /// Gives each role its rows of the tensor.
  expected<void> add_fused(const parsed_name& parsed, const weight_view& tensor) {
    std::uint64_t rows = 0, cols = 0;
    for (const tensor_role role : parsed.fused->roles) {
      const tensor_shape shape = shape_of(config_, role, parsed.layer);
      rows += shape.rows, cols = shape.cols;
    }
    const auto& all = tensor.tensor;
    if (tensor.num_matrices != 1)
      return failure(tensor.name, "must have 1 or 2 dimensions, has 3", errc::unsupported);
    if (all.num_rows != rows || all.num_cols != cols)
      return failure(tensor.name, "must have the shape " + shape_text(std::array{rows, cols}) + ", has " +
                                      shape_text(std::array{all.num_rows, all.num_cols}));
    if (tensor.scales != nullptr)
      return failure(tensor.name, "must not be FP8: it holds several matrices", errc::unsupported);
    const std::size_t row_bytes = all.bytes.size() / rows;
    std::size_t first = 0;
    for (const tensor_role role : parsed.fused->roles) {
      weight_view& place = slot(role, parsed.layer);
      if (!place.empty()) return failure(tensor.name, "occurs twice");
      place = tensor;
      place.tensor.num_rows = shape_of(config_, role, parsed.layer).rows;
      place.tensor.bytes = all.bytes.subspan(first, place.tensor.num_rows * row_bytes);
      first += place.tensor.bytes.size();
    }
    source_.total_bytes_ += tensor.stored_bytes();
    return {};
  }

  weight_view& slot(tensor_role role, std::uint32_t layer) {
    auto& table = is_layer_role(role) ? source_.layers_[layer] : source_.model_;
    return table[static_cast<std::size_t>(role)];
  }

  /// Converts a vector, or taps, to aligned F32 in the convention of `weights_source`.
  expected<void> convert_vector(tensor_role role, weight_view& view) {
    auto& tensor = view.tensor;
    if (!is_float_type(tensor.type))
      return failure(view.name,
                     "must be F32, F16 or BF16, is " + std::string(device::traits_of(tensor.type)->name));
    if (auto read = source_.read(tensor.bytes); !read) return read;
    const bool is_hugging_face = naming_ == tensor_naming::hugging_face;
    const bool add_one = is_hugging_face && traits_of(config_.arch).norms_less_one && is_norm_role(role);
    const bool is_logarithm = is_hugging_face && role == tensor_role::delta_decay;
    const bool aligned = reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % alignof(float) == 0;
    const std::size_t rows = tensor.num_rows, cols = tensor.num_cols;
    const bool is_checked = role == tensor_role::delta_decay || role == tensor_role::ffn_selection_bias;
    if (tensor.type == tensor_type::f32 && aligned && !add_one && !is_checked && rows == 1) return {};
    std::vector<float> stored(rows * cols);
    device::dequantize(tensor.type, tensor.bytes, stored);
    auto floats = std::make_unique<float[]>(rows * cols);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c) // transposed: taps first, then channels
        floats[c * rows + r] = stored[r * cols + c] + (add_one ? 1.0F : 0.0F);
    for (std::size_t i = 0; is_logarithm && i < rows * cols; ++i) floats[i] = -std::exp(floats[i]);
    const std::span values(floats.get(), rows * cols);
    if (role == tensor_role::delta_decay && !std::ranges::all_of(values, is_decay))
      return failure(view.name, "must hold decays, which are finite and not above 0");
    if (role == tensor_role::ffn_selection_bias && !std::ranges::all_of(values, is_finite))
      return failure(view.name, "must hold finite values: it selects the experts");
    tensor.type = tensor_type::f32;
    tensor.bytes = std::as_bytes(values);
    if (rows != 1) std::swap(tensor.num_rows, tensor.num_cols);
    source_.converted_.push_back(std::move(floats));
    return {};
  }

  const model_config& config_;
  tensor_naming naming_;
  std::string_view file_;
  std::string_view nested_example_; ///< a name of the file that tells how the language model is nested in it
  weights_source source_;
  std::vector<expert_tensors> experts_; ///< [layer], while tensors are added
};

expected<weights_source> weights_source::make(const model_config& config,
                                              std::span<const weight_view> tensors, tensor_naming naming,
                                              std::shared_ptr<const void> owner, std::string_view file,
                                              std::vector<std::shared_ptr<const partial_file>> files,
                                              const skipped_tensors& skipped) {
  // The tables below have as many layers as the file lists tensors for.
  std::size_t needed = 0;
  for (std::uint32_t layer = 0; layer < config.num_layers; ++layer) needed += num_tensors(config, layer);
  if (tensors.size() < needed)
    return error(errc::invalid_file, std::string(file) + ": a model of " + std::to_string(config.num_layers) +
                                         " layers needs " + std::to_string(needed) +
                                         " tensors in them, the file has " + std::to_string(tensors.size()));
  weights_builder builder(config, naming, file, std::move(files), skipped);
  for (const auto& tensor : tensors)
    if (auto added = builder.add(tensor); !added) return std::move(added).error();
  return builder.finish(std::move(owner));
}

expected<void> weights_source::read(std::span<const std::byte> bytes) const {
  for (const auto& file : files_)
    if (auto read = file->read(bytes); !read) return read;
  return {};
}

void weights_source::release(std::span<const std::byte> bytes) const noexcept {
  for (const auto& file : files_) file->release(bytes);
}

const weight_view& weights_source::at(tensor_role role) const {
  PACELINE_CHECK(!is_layer_role(role), std::string(to_string(role)));
  return model_[static_cast<std::size_t>(role)];
}

const expert_matrices& weights_source::experts(tensor_role role, std::uint32_t layer) const {
  PACELINE_CHECK(is_expert_role(role) && layer < experts_.size(), std::string(to_string(role)));
  return experts_[layer][expert_index(role)];
}

const weight_view& weights_source::at(tensor_role role, std::uint32_t layer) const {
  PACELINE_CHECK(is_layer_role(role) && !is_expert_role(role) && layer < layers_.size(),
                 std::string(to_string(role)));
  return layers_[layer][static_cast<std::size_t>(role)];
}

} // namespace paceline::model

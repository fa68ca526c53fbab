#include "runtime/model/loader/weights_source.hpp"

#include "runtime/base/check.hpp"
#include "runtime/device/float16.hpp"
#include "runtime/model/loader/expert_tensors.hpp"
#include "runtime/model/loader/partial_file.hpp"
#include "runtime/model/loader/quote.hpp"

#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

namespace paceline::model {

namespace {

using device::tensor_type;

/// The properties of a role that do not depend on the model: its name in each kind of file.
struct role_names {
  tensor_role role;
  std::string_view text;
  std::string_view gguf;         ///< after "blk.N." for roles of a layer
  std::string_view hugging_face; ///< after "model.layers.N." for roles of a layer
};

constexpr std::array<role_names, num_tensor_roles> all_roles = {{
    {tensor_role::token_embedding, "token_embedding", "token_embd.weight", "model.embed_tokens.weight"},
    {tensor_role::output_norm, "output_norm", "output_norm.weight", "model.norm.weight"},
    {tensor_role::output, "output", "output.weight", "lm_head.weight"},
    {tensor_role::attention_norm, "attention_norm", "attn_norm.weight", "input_layernorm.weight"},
    {tensor_role::q, "q", "attn_q.weight", "self_attn.q_proj.weight"},
    {tensor_role::k, "k", "attn_k.weight", "self_attn.k_proj.weight"},
    {tensor_role::v, "v", "attn_v.weight", "self_attn.v_proj.weight"},
    {tensor_role::q_bias, "q_bias", "attn_q.bias", "self_attn.q_proj.bias"},
    {tensor_role::k_bias, "k_bias", "attn_k.bias", "self_attn.k_proj.bias"},
    {tensor_role::v_bias, "v_bias", "attn_v.bias", "self_attn.v_proj.bias"},
    {tensor_role::q_norm, "q_norm", "attn_q_norm.weight", "self_attn.q_norm.weight"},
    {tensor_role::k_norm, "k_norm", "attn_k_norm.weight", "self_attn.k_norm.weight"},
    {tensor_role::attention_output, "attention_output", "attn_output.weight", "self_attn.o_proj.weight"},
    {tensor_role::attention_output_bias, "attention_output_bias", "attn_output.bias",
     "self_attn.o_proj.bias"},
    {tensor_role::post_attention_norm, "post_attention_norm", "post_attention_norm.weight",
     "post_attention_layernorm.weight"},
    {tensor_role::ffn_norm, "ffn_norm", "ffn_norm.weight", "pre_feedforward_layernorm.weight"},
    {tensor_role::ffn_gate, "ffn_gate", "ffn_gate.weight", "mlp.gate_proj.weight"},
    {tensor_role::ffn_up, "ffn_up", "ffn_up.weight", "mlp.up_proj.weight"},
    {tensor_role::ffn_down, "ffn_down", "ffn_down.weight", "mlp.down_proj.weight"},
    {tensor_role::post_ffn_norm, "post_ffn_norm", "post_ffw_norm.weight",
     "post_feedforward_layernorm.weight"},
    {tensor_role::ffn_router, "ffn_router", "ffn_gate_inp.weight", "mlp.gate.weight"},
    {tensor_role::ffn_gate_experts, "ffn_gate_experts", "ffn_gate_exps.weight", "mlp.experts.gate_up_proj"},
    {tensor_role::ffn_up_experts, "ffn_up_experts", "ffn_up_exps.weight", "mlp.experts.gate_up_proj"},
    {tensor_role::ffn_down_experts, "ffn_down_experts", "ffn_down_exps.weight", "mlp.experts.down_proj"},
}};

struct shape {
  std::uint64_t rows = 0; ///< 0: the config excludes the role
  std::uint64_t cols = 0;
};

/// Of a role of experts, the shape of one expert's matrix.
shape expected_shape(const model_config& config, tensor_role role, std::uint32_t layer) noexcept {
  const shape none;
  const bool has_experts = is_layer_role(role) && config.has_experts(layer);
  const shape hidden{1, config.hidden_size};
  switch (role) {
  case tensor_role::token_embedding:
    return {config.vocab_size, config.hidden_size};
  case tensor_role::output:
    return config.tied_embeddings ? none : shape{config.vocab_size, config.hidden_size};
  case tensor_role::output_norm:
  case tensor_role::attention_norm:
  case tensor_role::ffn_norm:
    return hidden;
  case tensor_role::q:
    return {config.q_size(), config.hidden_size};
  case tensor_role::k:
  case tensor_role::v:
    return {config.kv_size(), config.hidden_size};
  case tensor_role::q_bias:
    return config.qkv_bias ? shape{1, config.q_size()} : none;
  case tensor_role::k_bias:
  case tensor_role::v_bias:
    return config.qkv_bias ? shape{1, config.kv_size()} : none;
  case tensor_role::q_norm:
  case tensor_role::k_norm:
    return config.qk_norm ? shape{1, config.head_dim} : none;
  case tensor_role::attention_output:
    return {config.hidden_size, config.q_size()};
  case tensor_role::attention_output_bias:
    return config.attention_output_bias ? hidden : none;
  case tensor_role::post_attention_norm:
  case tensor_role::post_ffn_norm:
    return config.post_norms ? hidden : none;
  case tensor_role::ffn_gate:
  case tensor_role::ffn_up:
    return has_experts ? none : shape{config.ffn_size, config.hidden_size};
  case tensor_role::ffn_down:
    return has_experts ? none : shape{config.hidden_size, config.ffn_size};
  case tensor_role::ffn_router:
    return has_experts ? shape{config.experts.routing.num_experts, config.hidden_size} : none;
  case tensor_role::ffn_gate_experts:
  case tensor_role::ffn_up_experts:
    return has_experts ? shape{config.experts.ffn_size, config.hidden_size} : none;
  case tensor_role::ffn_down_experts:
    return has_experts ? shape{config.hidden_size, config.experts.ffn_size} : none;
  }
  return none;
}

std::size_t expert_index(tensor_role role) noexcept {
  return static_cast<std::size_t>(role) - static_cast<std::size_t>(tensor_role::ffn_gate_experts);
}

bool is_norm_role(tensor_role role) noexcept {
  switch (role) {
  case tensor_role::output_norm:
  case tensor_role::attention_norm:
  case tensor_role::q_norm:
  case tensor_role::k_norm:
  case tensor_role::post_attention_norm:
  case tensor_role::ffn_norm:
  case tensor_role::post_ffn_norm:
    return true;
  default:
    return false;
  }
}

/// The parts of a tensor's name: "blk.12.attn_q.weight" is role q of layer 12.
struct parsed_name {
  tensor_role role;
  std::uint32_t layer = 0;
  std::optional<expert_part> experts = std::nullopt; ///< for roles of experts
};

std::string_view name_of(const role_names& names, tensor_naming naming, const model_config& config) noexcept {
  if (naming == tensor_naming::gguf) return names.gguf;
  // Models with two norms in a layer name the second one after the op before it, not after the one behind it.
  if (names.role == tensor_role::ffn_norm && !config.post_norms) return "post_attention_layernorm.weight";
  return names.hugging_face;
}

std::string_view layer_prefix(tensor_naming naming) noexcept {
  return naming == tensor_naming::gguf ? "blk." : "model.layers.";
}

std::optional<parsed_name> parse_name(std::string_view name, tensor_naming naming,
                                      const model_config& config) {
  parsed_name parsed{};
  const auto prefix = layer_prefix(naming);
  const bool in_layer = name.starts_with(prefix);
  if (in_layer) {
    const char* first = name.data() + prefix.size();
    const char* last = name.data() + name.size();
    const auto [end, problem] = std::from_chars(first, last, parsed.layer);
    const bool leading_zero = end - first > 1 && *first == '0';
    if (problem != std::errc() || leading_zero || end == last || *end != '.') return std::nullopt;
    name = std::string_view(end + 1, static_cast<std::size_t>(last - end - 1));
  }
  if (const auto part = parse_expert_part(name, naming);
      in_layer && part && config.has_experts(parsed.layer)) {
    parsed.role = part->role;
    parsed.experts = part;
    return parsed;
  }
  for (const auto& names : all_roles) {
    parsed.role = names.role;
    if (is_layer_role(names.role) != in_layer || is_expert_role(names.role) ||
        expected_shape(config, names.role, parsed.layer).rows == 0)
      continue;
    if (name_of(names, naming, config) == name) return parsed;
  }
  return std::nullopt;
}

/// Tensors that may be present and are ignored: those that the loader computes itself, and a stored copy of a
/// tied head.
bool is_redundant(std::string_view name, tensor_naming naming, const model_config& config) noexcept {
  if (naming == tensor_naming::gguf) return name == "rope_freqs.weight";
  return name.ends_with(".rotary_emb.inv_freq") || (config.tied_embeddings && name == "lm_head.weight");
}

std::string shape_text(std::uint64_t rows, std::uint64_t cols) {
  std::string text = "[";
  text += std::to_string(rows);
  text += "][";
  text += std::to_string(cols);
  text += "]";
  return text;
}

float load_float(const std::byte* from, tensor_type type, std::size_t index) noexcept {
  if (type == tensor_type::f32) {
    float value;
    std::memcpy(&value, from + index * sizeof(value), sizeof(value));
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, from + index * sizeof(bits), sizeof(bits));
  return type == tensor_type::f16 ? device::float_of_f16(bits) : device::float_of_bf16(bits);
}

bool is_float_type(tensor_type type) noexcept {
  return type == tensor_type::f32 || type == tensor_type::f16 || type == tensor_type::bf16;
}

} // namespace

/// Assigns a file's tensors to roles.
class weights_builder {
 public:
  weights_builder(const model_config& config, tensor_naming naming, std::string_view file,
                  std::vector<std::shared_ptr<const partial_file>> files)
      : config_(config), naming_(naming), file_(file) {
    source_.files_ = std::move(files);
    source_.layers_.resize(config.num_layers);
    source_.experts_.resize(config.num_layers);
    experts_.resize(config.num_layers);
  }

  expected<void> add(const weight_view& tensor) {
    const auto parsed = parse_name(tensor.name, naming_, config_);
    if (!parsed) {
      if (is_redundant(tensor.name, naming_, config_)) return {};
      return failure(tensor.name,
                     "has no meaning in a model of architecture " + std::string(to_string(config_.arch)),
                     errc::unsupported);
    }
    if (is_layer_role(parsed->role) && parsed->layer >= config_.num_layers)
      return failure(tensor.name, "belongs to layer " + std::to_string(parsed->layer) + " of a model with " +
                                      std::to_string(config_.num_layers) + " layers");
    if (parsed->experts) return add_experts(*parsed, tensor);
    if (tensor.num_matrices != 1)
      return failure(tensor.name, "must have 1 or 2 dimensions, has 3", errc::unsupported);
    const auto [rows, cols] = expected_shape(config_, parsed->role, parsed->layer);
    if (tensor.tensor.num_rows != rows || tensor.tensor.num_cols != cols)
      return failure(tensor.name, "must have the shape " + shape_text(rows, cols) + ", has " +
                                      shape_text(tensor.tensor.num_rows, tensor.tensor.num_cols));
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
    for (const auto& names : all_roles) {
      const std::string name(name_of(names, naming_, config_));
      const std::uint32_t count = is_layer_role(names.role) ? config_.num_layers : 1;
      for (std::uint32_t layer = 0; layer < count; ++layer) {
        if (expected_shape(config_, names.role, layer).rows == 0) continue;
        const std::string full = is_layer_role(names.role)
                                     ? std::string(layer_prefix(naming_)) + std::to_string(layer) + "." + name
                                     : name;
        if (is_expert_role(names.role)) {
          if (auto complete = finish_experts(names.role, layer, full); !complete)
            return std::move(complete).error();
        } else if (slot(names.role, layer).empty()) {
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

  /// A tensor with gate and up of each expert gives two roles their matrices.
  expected<void> add_experts(const parsed_name& parsed, const weight_view& tensor) {
    const auto add_role = [&](tensor_role role) {
      const auto [rows, cols] = expected_shape(config_, role, parsed.layer);
      return experts_[parsed.layer][expert_index(role)].add(*parsed.experts, role, tensor,
                                                            config_.experts.routing.num_experts, rows, cols);
    };
    auto broken = add_role(parsed.role);
    if (!broken && parsed.experts->gate_and_up) broken = add_role(tensor_role::ffn_up_experts);
    if (broken) return failure(tensor.name, *broken);
    source_.total_bytes_ += tensor.stored_bytes();
    return {};
  }

  expected<void> finish_experts(tensor_role role, std::uint32_t layer, const std::string& name) {
    expert_problem problem;
    auto all = experts_[layer][expert_index(role)].take(config_.experts.routing.num_experts, problem);
    if (!problem.twice.empty())
      return failure(problem.twice, "occurs twice, or another one has its matrices");
    if (problem.none) return failure(name, "is missing");
    if (problem.missing)
      return failure(name, "has no " + std::string(to_string(role)) + " of expert " +
                               std::to_string(*problem.missing));
    for (const weight_view& view : all)
      if (view.tensor.type != all[0].tensor.type || (view.scales == nullptr) != (all[0].scales == nullptr))
        return failure(view.name, "must have the type of the other experts", errc::unsupported);
    source_.experts_[layer][expert_index(role)] = std::move(all);
    return {};
  }

  weight_view& slot(tensor_role role, std::uint32_t layer) {
    auto& table = is_layer_role(role) ? source_.layers_[layer] : source_.model_;
    return table[static_cast<std::size_t>(role)];
  }

  /// Converts a vector to aligned F32, and a norm to a plain factor.
  expected<void> convert_vector(tensor_role role, weight_view& view) {
    auto& tensor = view.tensor;
    if (!is_float_type(tensor.type))
      return failure(view.name,
                     "must be F32, F16 or BF16, is " + std::string(device::traits_of(tensor.type)->name));
    if (auto read = source_.read(tensor.bytes); !read) return read;
    const bool add_one =
        naming_ == tensor_naming::hugging_face && config_.arch == architecture::gemma3 && is_norm_role(role);
    const bool aligned = reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % alignof(float) == 0;
    if (tensor.type == tensor_type::f32 && aligned && !add_one) return {};
    auto floats = std::make_unique<float[]>(tensor.num_cols);
    for (std::size_t i = 0; i < tensor.num_cols; ++i)
      floats[i] = load_float(tensor.bytes.data(), tensor.type, i) + (add_one ? 1.0F : 0.0F);
    tensor.type = tensor_type::f32;
    tensor.bytes = std::as_bytes(std::span(floats.get(), tensor.num_cols));
    source_.converted_.push_back(std::move(floats));
    return {};
  }

  const model_config& config_;
  tensor_naming naming_;
  std::string_view file_;
  weights_source source_;
  std::vector<std::array<expert_tensors, num_expert_roles>>
      experts_; ///< [layer][role], while tensors are added
};

std::string_view to_string(tensor_role role) noexcept {
  return all_roles[static_cast<std::size_t>(role)].text;
}

bool is_layer_role(tensor_role role) noexcept { return role >= tensor_role::attention_norm; }

bool is_matrix_role(tensor_role role) noexcept {
  switch (role) {
  case tensor_role::token_embedding:
  case tensor_role::output:
  case tensor_role::q:
  case tensor_role::k:
  case tensor_role::v:
  case tensor_role::attention_output:
  case tensor_role::ffn_gate:
  case tensor_role::ffn_up:
  case tensor_role::ffn_down:
  case tensor_role::ffn_router:
  case tensor_role::ffn_gate_experts:
  case tensor_role::ffn_up_experts:
  case tensor_role::ffn_down_experts:
    return true;
  default:
    return false;
  }
}

expected<weights_source> weights_source::make(const model_config& config,
                                              std::span<const weight_view> tensors, tensor_naming naming,
                                              std::shared_ptr<const void> owner, std::string_view file,
                                              std::vector<std::shared_ptr<const partial_file>> files) {
  // The tables below have as many layers as the file lists tensors for. Experts may share a tensor.
  std::size_t per_layer = 0;
  for (const auto& names : all_roles)
    if (is_layer_role(names.role) && expected_shape(config, names.role, 0).rows != 0) ++per_layer;
  if (config.has_experts(0)) --per_layer; // one tensor may have gate and up
  if (tensors.size() / per_layer < config.num_layers)
    return error(errc::invalid_file, std::string(file) + ": a model of " + std::to_string(config.num_layers) +
                                         " layers needs " + std::to_string(config.num_layers * per_layer) +
                                         " tensors in them, the file has " + std::to_string(tensors.size()));
  weights_builder builder(config, naming, file, std::move(files));
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

std::span<const weight_view> weights_source::experts(tensor_role role, std::uint32_t layer) const {
  PACELINE_CHECK(is_expert_role(role) && layer < experts_.size(), std::string(to_string(role)));
  return experts_[layer][expert_index(role)];
}

const weight_view& weights_source::at(tensor_role role, std::uint32_t layer) const {
  PACELINE_CHECK(is_layer_role(role) && !is_expert_role(role) && layer < layers_.size(),
                 std::string(to_string(role)));
  return layers_[layer][static_cast<std::size_t>(role)];
}

} // namespace paceline::model

#include "runtime/model/loader/weights/fp8_weights.hpp"

#include "runtime/base/json_node.hpp"
#include "runtime/base/quote.hpp"
#include "runtime/device/stored_block.hpp"
#include "runtime/model/loader/hugging_face/safetensors_header.hpp"
#include "runtime/model/loader/text_part.hpp"
#include "runtime/model/loader/weights/weights_source.hpp"

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace paceline::model {

namespace {

namespace json = boost::json;
using device::f8_block;

/// Reads `sizes`, if present, as the rows and columns of a block.
void read_block_size(const json_node& sizes, fp8_quantisation& out) {
  if (!sizes) return;
  sizes.require_array();
  std::array<std::uint64_t, 2> found{};
  for (std::size_t i = 0; i < found.size(); ++i)
    found[i] = sizes[i].if_uint_below(std::uint64_t{1} << 32).value_or(0);
  if (sizes.size() != 2 || found[0] == 0 || found[1] == 0)
    return sizes.refuse("must be two integers of 1 to 4294967295");
  if (found[1] % f8_block::num_values != 0)
    sizes.refuse("must have whole blocks of 64 columns", errc::unsupported);
  out = {found[0], found[1]};
}

fp8_quantisation read_plain(const json_node& fields) {
  fp8_quantisation out;
  if (const auto format = fields["fmt"].string_or("e4m3"); format != "e4m3")
    fields["fmt"].refuse("is " + quote(format) + "; supported is e4m3", errc::unsupported);
  read_block_size(fields["weight_block_size"], out);
  return out;
}

/// Reads the quantisation of the weights of one group of layers.
fp8_quantisation read_group(const json_node& weights) {
  fp8_quantisation out;
  if (weights["type"].string_or("int") != "float" || weights["num_bits"].uint_or(8) != 8)
    weights["type"].refuse("and num_bits must be 'float' and 8: other compressed tensors are not supported",
                           errc::unsupported);
  const auto strategy = weights["strategy"].string_or("tensor");
  if (strategy == "block")
    read_block_size(weights["block_structure"], out);
  else if (strategy != "tensor" && strategy != "channel")
    weights["strategy"].refuse("is " + quote(strategy) + "; supported are tensor, channel and block",
                               errc::unsupported);
  if (strategy == "block" && out.block_rows == 0) weights["block_structure"].refuse("is missing");
  return out;
}

fp8_quantisation read_compressed_tensors(const json_node& fields) {
  // Some of these rotations must be done by the program that runs the model.
  if (const json_node transforms = fields["transform_config"]; transforms && !transforms.object().empty())
    transforms.refuse("is not supported", errc::unsupported);
  std::optional<fp8_quantisation> out;
  const json_node groups = fields["config_groups"];
  groups.require_object();
  for (const auto& group : groups.object()) {
    const json_node weights = groups[std::string_view(group.key())]["weights"];
    if (!weights.is_object()) {
      groups.refuse("must hold groups with 'weights'");
      break;
    }
    const fp8_quantisation found = read_group(weights);
    if (out && (out->block_rows != found.block_rows || out->block_cols != found.block_cols))
      groups.refuse("must agree in their blocks", errc::unsupported);
    out = found;
  }
  if (!out) groups.refuse("has no group");
  return out.value_or(fp8_quantisation());
}

std::string shape_text(const safetensors_tensor& tensor) {
  std::string text = "[";
  for (std::uint32_t d = 0; d < tensor.num_dims; ++d)
    text += (d == 0 ? "" : ",") + std::to_string(tensor.shape[d]);
  return text + "]";
}

/// The arrangement of `scales` over `weight`; nullopt if the shapes do not match.
std::optional<scale_grid> grid_of(const safetensors_tensor& weight, const safetensors_tensor& scales,
                                  const fp8_quantisation& quantisation) {
  const std::uint64_t rows = weight.shape[0], cols = weight.shape[1];
  const auto has_shape = [&](std::uint64_t first, std::uint64_t second) {
    return scales.num_dims <= 2 && scales.shape[0] == first && scales.shape[1] == second;
  };
  if (quantisation.block_rows != 0) {
    const auto pieces = [](std::uint64_t num, std::uint64_t of) {
      return num / of + (num % of != 0 ? 1 : 0);
    };
    const std::uint64_t grid_cols = pieces(cols, quantisation.block_cols);
    if (!has_shape(pieces(rows, quantisation.block_rows), grid_cols)) return std::nullopt;
    return scale_grid{{}, grid_cols, quantisation.block_rows, quantisation.block_cols};
  }
  if (has_shape(1, 1)) return scale_grid{{}, 1, rows, cols};
  if (has_shape(rows, 1)) return scale_grid{{}, 1, 1, cols};
  return std::nullopt;
}

expected<std::optional<fp8_quantisation>> read_level(const json::object& config, const std::string& file) {
  std::optional<error> failure;
  const json_node fields = json_node(config, file, failure, json_node::naming::key)["quantization_config"];
  if (!fields) return std::optional<fp8_quantisation>();
  fields.require_object();
  fp8_quantisation out;
  const auto method = fields["quant_method"].string_or("");
  if (method == "fp8")
    out = read_plain(fields);
  else if (method == "compressed-tensors")
    out = read_compressed_tensors(fields);
  else
    fields["quant_method"].refuse(
        "is " + quote(method) + "; supported are fp8 and compressed-tensors with float weights of 8 bits",
        errc::unsupported);
  if (failure) return *failure;
  return std::optional(out);
}

} // namespace

expected<std::optional<fp8_quantisation>> read_fp8_quantisation(const json::object& config,
                                                                const std::string& file) {
  auto found = read_level(config, file);
  return found && !*found ? read_level(text_members(config), file) : found;
}

expected<scale_grid> read_scale_grid(const safetensors_tensor& weight, const safetensors_tensor& scales,
                                     const fp8_quantisation& quantisation, std::string_view file) {
  const auto failure = [&](const safetensors_tensor& tensor, const std::string& rule) {
    return error(errc::invalid_file, std::string(file) + ": tensor " + quote(tensor.name) + " " + rule);
  };
  if (weight.num_dims != 2) return failure(weight, "of F8_E4M3 must have 2 dimensions");
  if (weight.shape[1] % f8_block::num_values != 0)
    return failure(weight, "of F8_E4M3 must have rows of whole blocks of 64 values, has rows of " +
                               std::to_string(weight.shape[1]));
  if (scales.integer_bytes != 0 || scales.type == device::tensor_type::f8_e4m3)
    return failure(scales, "must be F32, F16 or BF16");
  auto grid = grid_of(weight, scales, quantisation);
  if (!grid) {
    const std::string rule = quantisation.block_rows != 0
                                 ? "a scale for each " + std::to_string(quantisation.block_rows) +
                                       " rows and " + std::to_string(quantisation.block_cols) + " columns"
                                 : "one scale, or one for each row,";
    return failure(scales, "must have " + rule + " of " + shape_text(weight) + ", has the shape " +
                               shape_text(scales));
  }
  std::uint64_t num_values = scales.data.size() / bytes_of_value(scales.type);
  grid->values.resize(num_values);
  device::dequantize(scales.type, scales.data, grid->values);
  // Below this bound, products with codes stay in the range of float32, even if they are also scaled by
  // powers of two.
  for (const float value : grid->values)
    if (!(std::fabs(value) < 0x1p100F)) return failure(scales, "must hold finite scales below 2^100");
  return std::move(*grid);
}

bool is_unused_fp8_scale(std::string_view name) noexcept {
  for (const std::string_view unused : {".input_scale", "activation_scale", ".k_scale", ".v_scale"})
    if (name.ends_with(unused)) return true; // "activation_scale" behind a point or, of experts, behind "_"
  return false;
}

std::vector<std::byte> f8_blocks(const weight_view& view) {
  const device::tensor_view& codes = view.tensor;
  const auto is_no_number = [](std::byte code) { return (code & std::byte{0x7f}) == std::byte{0x7f}; };
  std::vector<std::byte> out(view.stored_bytes());
  std::byte* to = out.data();
  const std::byte* from = codes.bytes.data();
  for (std::uint64_t row = 0; row < codes.num_rows; ++row) {
    for (std::uint64_t col = 0; col < codes.num_cols; col += f8_block::num_values) {
      float scale = view.scales->at(row, col);
      if (std::any_of(from, from + f8_block::num_values, is_no_number))
        scale = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(to, &scale, sizeof scale);
      std::memcpy(to + f8_block::codes_at, from, f8_block::num_values);
      to += f8_block::codes_at + f8_block::num_values;
      from += f8_block::num_values;
    }
  }
  return out;
}

} // namespace paceline::model

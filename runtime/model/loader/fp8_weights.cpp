#include "runtime/model/loader/fp8_weights.hpp"

#include "runtime/device/stored_block.hpp"
#include "runtime/model/loader/json_fields.hpp"
#include "runtime/model/loader/quote.hpp"
#include "runtime/model/loader/safetensors_header.hpp"
#include "runtime/model/loader/weights_source.hpp"

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

constexpr std::string_view section = "quantization_config";

/// Reads `key`, if it is present, as the rows and columns of a block.
void read_block_size(json_fields& fields, std::string_view key, fp8_quantisation& out) {
  const auto* sizes = fields.array(key);
  if (!sizes) return;
  std::array<std::uint64_t, 2> found{};
  for (std::size_t i = 0; i < std::min(sizes->size(), found.size()); ++i)
    if (const auto* size = (*sizes)[i].if_int64(); size && *size > 0 && *size <= 0xffffffff)
      found[i] = static_cast<std::uint64_t>(*size);
  if (sizes->size() != 2 || found[0] == 0 || found[1] == 0)
    return fields.refuse(key, "must be two integers of 1 to 4294967295");
  if (found[1] % f8_block::num_values != 0)
    fields.refuse(key, "must have whole blocks of 64 columns", errc::unsupported);
  out = {found[0], found[1]};
}

fp8_quantisation read_plain(json_fields& fields) {
  fp8_quantisation out;
  if (const auto format = fields.string_or("fmt", "e4m3"); format != "e4m3")
    fields.refuse("fmt", "is " + quote(format) + "; supported is e4m3", errc::unsupported);
  read_block_size(fields, "weight_block_size", out);
  return out;
}

/// Reads the weights' settings in one group of layers.
fp8_quantisation read_group(json_fields& weights) {
  fp8_quantisation out;
  if (weights.string_or("type", "int") != "float" || weights.uint_or("num_bits", 8) != 8)
    weights.refuse("type", "and num_bits must be 'float' and 8: other compressed tensors are not supported",
                   errc::unsupported);
  const auto strategy = weights.string_or("strategy", "tensor");
  if (strategy == "block")
    read_block_size(weights, "block_structure", out);
  else if (strategy != "tensor" && strategy != "channel")
    weights.refuse("strategy", "is " + quote(strategy) + "; supported are tensor, channel and block",
                   errc::unsupported);
  if (strategy == "block" && out.block_rows == 0) weights.refuse("block_structure", "is missing");
  return out;
}

fp8_quantisation read_compressed_tensors(json_fields& fields) {
  // Such rotations must be partly applied by the runtime, which is not supported.
  if (const auto* transforms = fields.object("transform_config"); transforms && !transforms->empty())
    fields.refuse("transform_config", "is not supported", errc::unsupported);
  std::optional<fp8_quantisation> out;
  const auto* groups = fields.object("config_groups");
  if (!groups) fields.refuse("config_groups", "is missing");
  for (auto at = groups ? groups->begin() : json::object::const_iterator(); groups && at != groups->end();
       ++at) {
    const std::string where = fields.where() + ": config_groups: " + std::string(at->key());
    const auto* group = at->value().if_object();
    const auto* weights = group ? group->if_contains("weights") : nullptr;
    if (!weights || !weights->is_object()) {
      fields.refuse("config_groups", "must hold groups with 'weights'");
      break;
    }
    json_fields nested(weights->get_object(), where + ": weights");
    const fp8_quantisation found = read_group(nested);
    fields.adopt(nested);
    if (out && (out->block_rows != found.block_rows || out->block_cols != found.block_cols))
      fields.refuse("config_groups", "must agree in their blocks", errc::unsupported);
    out = found;
  }
  if (!out) fields.refuse("config_groups", "has no group");
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

} // namespace

expected<std::optional<fp8_quantisation>> read_fp8_quantisation(const json::object& config,
                                                                const std::string& file) {
  json_fields fields(config, file);
  const auto* object = fields.object(section);
  if (fields.failure()) return *fields.failure();
  if (!object) return std::optional<fp8_quantisation>();
  json_fields nested(*object, file + ": " + std::string(section));
  fp8_quantisation out;
  const auto method = nested.string_or("quant_method", "");
  if (method == "fp8")
    out = read_plain(nested);
  else if (method == "compressed-tensors")
    out = read_compressed_tensors(nested);
  else
    nested.refuse("quant_method",
                  "is " + quote(method) +
                      "; supported are fp8 and compressed-tensors with float weights of 8 bits",
                  errc::unsupported);
  if (nested.failure()) return *nested.failure();
  return std::optional(out);
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
  if (scales.type == device::tensor_type::f8_e4m3) return failure(scales, "must be F32, F16 or BF16");
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
  return name.ends_with(".input_scale") || name.ends_with(".k_scale") || name.ends_with(".v_scale");
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

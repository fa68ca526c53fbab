#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/model/heads/head_target.hpp"
#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/model/model_config.hpp"

#include <boost/json/object.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace paceline::model {

/// The network of a head. `eagle`: EAGLE-1 and EAGLE-2 (Li et al. 2024a, b), and MTP modules as a variant.
/// `eagle3`: EAGLE-3 (Li et al. 2025).
enum class eagle_version : std::uint8_t { eagle, eagle3 };

/// The input of mask rows, in heads that draft all levels in one pass. The token of a mask row is not known.
enum class mask_rows : std::uint8_t {
  none,
  feature,         ///< P-EAGLE: a special token, and a trained vector instead of the target's hidden states
  attention_input, ///< DART: a trained vector instead of the input of the first layer's attention
};

/// The config of an EAGLE head, in terms of the equations of eagle_head.hpp.
struct eagle_config {
  eagle_version version = eagle_version::eagle3;
  std::string name = "eagle3";          ///< "eagle", "eagle3", "mtp", "dart"
  model_config layer;                   ///< sizes of the head's layers; vocab_size: of its LM head
  std::uint32_t vocab_size = 0;         ///< the target's tokens, as the config says
  std::uint32_t target_hidden_size = 0; ///< values of one tapped vector
  std::vector<layer_index> taps;        ///< in the order in which `fc` reads them
  bool norm_before_residual = false;    ///< the first layer adds to the normed feature
  bool norm_output = false;             ///< the hidden state that is fed back is normed by the final norm
  bool has_tap_norms = false;           ///< the config says that each tapped vector is normed
  bool has_input_norm = false;          ///< the config says that all tapped vectors are normed together
  /// EAGLE, MTP: `fc` reads [feature ; embedding] instead of [embedding ; feature].
  bool hidden_first = false;
  bool ties_lm_head = false; ///< the head's own embedding is also its LM head if the file has no LM head
  mask_rows masks = mask_rows::none;
  /// P-EAGLE: one less than the number of levels that it was trained for, or 63 if the config does not state
  /// that number. DART: the config's "draft_length".
  std::uint32_t num_mask_rows = 0;
  token_id mask_token{0};   ///< token of P-EAGLE's mask rows
  bool norms_twice = false; ///< DART: the final norm is applied to its own output before the LM head
};

/// Facts about an EAGLE head that its tensors show.
struct eagle_tensors {
  std::uint32_t num_layers = 1; ///< layers that have tensors; some published configs state another number
  mask_rows masks = mask_rows::none;
  bool has_experts = false; ///< the feed-forward block of its layers is a mixture of experts
};

/// Reads config.json of a head, called `file` in errors. Understands the flat layout of SafeAILab, SpecForge,
/// AngelSlim and DeepSpec, the nested one of speculators, and fields within "text_config". A config that
/// names P-EAGLE has mask rows of kind `feature` whatever the tensors show. Errors name file, field and,
/// where the target disagrees, both values. Without a target nothing is compared, and taps that follow from
/// the target's number of layers are left out.
expected<eagle_config> read_eagle_config(const boost::json::object& config, const std::string& file,
                                         eagle_version version, const eagle_tensors& tensors,
                                         const std::optional<head_target>& target,
                                         const head_overrides& overrides);

/// The same for a GGUF file of llama.cpp's architecture "eagle3". Its queries and keys have the interleaved
/// layout.
expected<eagle_config> read_eagle_config(const gguf_file& file, const std::optional<head_target>& target,
                                         const head_overrides& overrides);

/// The layer number under which a model's GGUF file stores its module for multi-token prediction. Such files
/// number the module after the model's own layers. Error: there is no such module, or several.
expected<std::uint32_t> gguf_mtp_layer(const gguf_file& file);

/// The config of that module. The file may lack the rest of the model.
expected<eagle_config> read_mtp_config(const gguf_file& file, const std::optional<head_target>& target,
                                       const head_overrides& overrides);

} // namespace paceline::model

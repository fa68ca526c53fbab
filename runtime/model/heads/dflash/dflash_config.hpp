#pragma once

#include "runtime/base/expected.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/model/heads/dflash/markov_head.hpp"
#include "runtime/model/heads/eagle/eagle_config.hpp"
#include "runtime/model/loader/gguf/gguf_file.hpp"
#include "runtime/model/model_config.hpp"

#include <boost/json/object.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline::model {

/// Which positions the slots of a block see in layers with a window. In other layers each slot sees the whole
/// text and the whole block.
struct block_window {
  std::uint32_t size = 0; ///< positions
  bool is_causal = true;  ///< a slot sees the block's slots up to itself; false: the whole block
  /// true: the window is the last `size` positions up to the slot itself (z-lab); false: the last `size`
  /// positions of the text, in addition to the block (speculators)
  bool ends_at_slot = false;

  /// Number of positions that slot `slot` of `num_slots` sees, those of the block included.
  constexpr std::uint32_t of_slot(std::uint32_t slot, std::uint32_t num_slots) const noexcept {
    const std::uint32_t last = is_causal ? slot : num_slots - 1;
    return ends_at_slot ? size + last - slot : size + last + 1;
  }
};

/// The config of a head of kind "dflash" or "dspark", in terms of the equations of dflash_head.hpp.
struct dflash_config {
  std::string name = "dflash";   ///< or "dspark"
  model_config layer;            ///< sizes of the layers; vocab_size: of the LM head
  std::uint32_t vocab_size = 0;  ///< tokens of the head's own embedding or LM head
  std::vector<layer_index> taps; ///< in the order in which `fc` reads them
  std::uint32_t block_size = 16; ///< slots of a block
  token_id mask_token;           ///< token that is embedded in every slot but the first
  /// True: slot j predicts the token after its position. False: it predicts the token at its position.
  bool predicts_next = false;
  float embedding_scale = 1;
  std::vector<bool> has_window; ///< for each layer: whether it has the window
  block_window window;
  markov_kind markov = markov_kind::none;
  std::uint32_t markov_rank = 0;
  bool has_confidence = false;
  bool confidence_reads_token = false;

  std::uint32_t num_levels() const noexcept { return predicts_next ? block_size : block_size - 1; }
};

/// Facts that a head's tensors show and its config may omit.
struct dflash_tensors {
  std::uint32_t num_layers = 0;
  std::uint32_t markov_rank = 0;      ///< columns of markov_w1; 0: there is none
  std::uint32_t confidence_width = 0; ///< values that the confidence head reads; 0: there is none
  bool has_embedding = false;         ///< the head has its own embedding
};

/// The rule that the block's size (or the window's size) breaks, as text for an error; empty: none.
std::string rule_of_block(const dflash_config& config);
std::string rule_of_window(const dflash_config& config);

/// Reads config.json of a head of kind `name`, called `file` in errors. Understands the layouts of z-lab and
/// SpecForge ("dflash_config"), DeepSpec (flat) and speculators ("transformer_layer_config"). Errors name
/// file, field and, where the target disagrees, both values. Similar networks that have the same config
/// layout (DFlash2, Domino) are refused. Without a target nothing is compared, and taps that follow from the
/// target's number of layers are left out.
expected<dflash_config> read_dflash_config(const boost::json::object& config, const std::string& file,
                                           const std::string& name, const dflash_tensors& tensors,
                                           const std::optional<head_target>& target,
                                           const head_overrides& overrides);

/// The same for a GGUF file of llama.cpp's architecture "dflash".
expected<dflash_config> read_dflash_config(const gguf_file& file, const std::string& name,
                                           const dflash_tensors& tensors,
                                           const std::optional<head_target>& target,
                                           const head_overrides& overrides);

} // namespace paceline::model

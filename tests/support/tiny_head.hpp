#pragma once

#include "tests/support/tiny_fp8.hpp"

#include <boost/json/object.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace paceline::test {

/// The files of a small draft head with random weights, to be changed and written.
struct tiny_head {
  struct tensor {
    std::vector<std::uint64_t> shape;
    std::vector<float> values;
    std::vector<std::int64_t> integers = {}; ///< instead of values
    std::vector<std::byte> codes = {};       ///< of F8_E4M3, instead of values
  };

  /// A head of EAGLE-3 in the layout of SafeAILab, of one layer, for a target with `target_hidden` values and
  /// at least `vocab` tokens; it reads three taps and drafts `draft_vocab` tokens, every second one.
  static tiny_head eagle3(std::uint32_t hidden, std::uint32_t target_hidden, std::uint32_t vocab,
                          std::uint32_t draft_vocab);
  /// A head of EAGLE in the layout of SafeAILab.
  static tiny_head eagle(std::uint32_t hidden, std::uint32_t vocab);
  /// A head of DFlash in the layout of z-lab: two layers, blocks of 4 slots, mask token 3.
  static tiny_head dflash(std::uint32_t hidden, std::uint32_t vocab);
  /// The same with a Markov head of rank 8 ("vanilla", "gated", "rnn") and a confidence head that reads the
  /// token: DSpark in the layout of SpecForge.
  static tiny_head dspark(std::uint32_t hidden, std::uint32_t vocab, const std::string& markov_kind);

  /// A module of multi-token prediction as Qwen3-Next's: "mtp.", output gate, QK norms.
  static tiny_head mtp_next(std::uint32_t hidden, std::uint32_t vocab);
  /// The same with a mixture of experts, of which a row uses 3, in a tensor each, as Qwen3.5's.
  static tiny_head mtp_experts(std::uint32_t hidden, std::uint32_t vocab, std::uint32_t num_experts = 8);
  /// A module as in MiMo, module 0: "model.mtp_layers.0.".
  static tiny_head mtp_mimo(std::uint32_t hidden, std::uint32_t vocab);
  /// Medusa heads with biases in FasterDecoding's layout, or two heads in vLLM's layout. There is no config.
  static tiny_head medusa(std::uint32_t hidden, std::uint32_t vocab, std::uint32_t num_heads = 2);
  static tiny_head medusa_vllm(std::uint32_t hidden, std::uint32_t vocab);
  /// Hydra, architecture `mlp`.
  static tiny_head hydra(std::uint32_t hidden, std::uint32_t vocab, std::uint32_t num_heads = 2);
  /// Hydra++ of two heads, `prefix-mlp`, for a target whose feed-forward size is `ffn`.
  static tiny_head hydra_prefix(std::uint32_t hidden, std::uint32_t vocab, std::uint64_t ffn);
  /// An MLP speculator of three levels, of states of 48 values, not tied.
  static tiny_head mlp_speculator(std::uint32_t hidden, std::uint32_t vocab);

  void add(const std::string& name, std::vector<std::uint64_t> shape);
  /// Gives tensor `name` the values of `of`.
  void copy(const std::string& name, const std::string& of) { tensors[name] = tensors.at(of); }
  void rename(const std::string& from, const std::string& to);
  /// Puts tensors "PREFIX0.NAME.weight", "PREFIX1.NAME.weight" and so on, `names` of each number one after
  /// another, into tensor `to`, which has a dimension more.
  void stack(const std::string& prefix, const std::vector<std::string>& names, const std::string& to);
  /// Rounds the projections whose rows are whole blocks of 64 values to FP8: they become codes and scales, or
  /// the values that these represent.
  void round_to_fp8(fp8_scales scales, bool decoded);
  void write(const std::filesystem::path& directory) const;

  boost::json::object config;
  std::map<std::string, tensor> tensors;

 private:
  void add_layer(const std::string& prefix, std::uint64_t hidden, std::uint64_t inputs,
                 std::uint64_t ffn = 48);
  /// A module's layer and what is around it: "PREFIXNAME.weight".
  void add_module(const std::string& prefix, const std::string& layer, std::uint64_t hidden,
                  const std::array<const char*, 4>& names);
};

} // namespace paceline::test

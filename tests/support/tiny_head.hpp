#pragma once

#include <boost/json/object.hpp>

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
  };

  /// A head of EAGLE-3 in the layout of SafeAILab, of one layer, for a target with `target_hidden` values and
  /// at least `vocab` tokens; it reads three taps and drafts `draft_vocab` tokens, every second one.
  static tiny_head eagle3(std::uint32_t hidden, std::uint32_t target_hidden, std::uint32_t vocab,
                          std::uint32_t draft_vocab);
  /// A head of EAGLE in the layout of SafeAILab.
  static tiny_head eagle(std::uint32_t hidden, std::uint32_t vocab);
  /// Medusa in the layout of FasterDecoding, with a layer and an LM head for each of `num_heads`.
  static tiny_head medusa(std::uint32_t hidden, std::uint32_t vocab, std::uint32_t num_heads);
  /// Hydra with heads of one layer.
  static tiny_head hydra(std::uint32_t hidden, std::uint32_t vocab, std::uint32_t num_heads);

  /// A head of DFlash in the layout of z-lab: two layers, blocks of 4 slots, mask token 3.
  static tiny_head dflash(std::uint32_t hidden, std::uint32_t vocab);
  /// The same with a Markov head of rank 8 ("vanilla", "gated", "rnn") and a confidence head that reads the
  /// token: DSpark in the layout of SpecForge.
  static tiny_head dspark(std::uint32_t hidden, std::uint32_t vocab, const std::string& markov_kind);

  void add(const std::string& name, std::vector<std::uint64_t> shape);
  void rename(const std::string& from, const std::string& to);
  void write(const std::filesystem::path& directory) const;

  boost::json::object config;
  std::map<std::string, tensor> tensors;

 private:
  void add_layer(const std::string& prefix, std::uint64_t hidden, std::uint64_t inputs);
};

} // namespace paceline::test

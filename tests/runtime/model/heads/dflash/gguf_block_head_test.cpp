// DFlash and DSpark heads in GGUF files of llama.cpp's architecture "dflash": they compute what the same head
// in a directory does.
#include "runtime/model/heads/dflash/dflash_config.hpp"
#include "runtime/model/heads/files/head_kind.hpp"
#include "runtime/model/heads/files/head_report.hpp"
#include "runtime/model/heads/files/quantise.hpp"
#include "runtime/model/kv_cells.hpp"
#include "tests/support/head_test.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <map>

namespace paceline::test {
namespace {

using device::tensor_type;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::byte> bytes_of(const auto& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// "blk.0.attn_q.weight" for "layers.0.self_attn.q_proj.weight".
std::string name_in_file(const std::string& name) {
  static const std::map<std::string, std::string> parts = {{"input_layernorm", "attn_norm"},
                                                           {"self_attn.q_proj", "attn_q"},
                                                           {"self_attn.k_proj", "attn_k"},
                                                           {"self_attn.v_proj", "attn_v"},
                                                           {"self_attn.o_proj", "attn_output"},
                                                           {"self_attn.q_norm", "attn_q_norm"},
                                                           {"self_attn.k_norm", "attn_k_norm"},
                                                           {"post_attention_layernorm", "ffn_norm"},
                                                           {"mlp.gate_proj", "ffn_gate"},
                                                           {"mlp.up_proj", "ffn_up"},
                                                           {"mlp.down_proj", "ffn_down"},
                                                           {"fc", "fc"},
                                                           {"hidden_norm", "enc.output_norm"},
                                                           {"norm", "output_norm"},
                                                           {"markov_head.markov_w1", "markov_w1"},
                                                           {"markov_head.markov_w2", "markov_w2"},
                                                           {"confidence_head.proj", "conf_proj"},
                                                           {"embed_tokens", "token_embd"},
                                                           {"lm_head", "output"}};
  const std::size_t dot = name.rfind('.');
  std::string part = name.substr(0, dot), prefix;
  if (part.starts_with("layers.")) {
    const std::size_t end = part.find('.', 7) + 1;
    prefix = "blk." + part.substr(7, end - 7);
    part = part.substr(end);
  }
  return prefix + parts.at(part) + name.substr(dot);
}

class gguf_block_head_test : public head_test {
 protected:
  static tiny_head dflash() { return tiny_head::dflash(hidden, vocab); }
  static tiny_head dspark() { return tiny_head::dspark(hidden, vocab, "vanilla"); }

  /// The file of a head of `tiny_head`, which reads the states after layers 1 and 5. Matrices have `type`,
  /// which is F32 or Q8_0.
  static gguf_builder file_of(const tiny_head& head, tensor_type type = tensor_type::f32) {
    gguf_builder file;
    file.set_string("general.architecture", "dflash")
        .set_uint32("dflash.block_count", 2)
        .set_uint32("dflash.context_length", 64)
        .set_uint32("dflash.embedding_length", hidden)
        .set_uint32("dflash.feed_forward_length", 48)
        .set_uint32("dflash.attention.head_count", 4)
        .set_uint32("dflash.attention.head_count_kv", 2)
        .set_uint32("dflash.attention.key_length", 8)
        .set_float32("dflash.attention.layer_norm_rms_epsilon", 1e-5F)
        .set_float32("dflash.rope.freq_base", 10000)
        .set_uint32("dflash.vocab_size", vocab)
        .set_uint32("dflash.block_size", 4)
        .set_int32s("dflash.target_layers", std::array{2, 6})
        .set_uint32("tokenizer.ggml.mask_token_id", 3);
    for (const auto& [name, one] : head.tensors) {
      const bool is_quantised = type != tensor_type::f32 && one.shape.size() == 2 && one.shape[1] % 32 == 0;
      file.add_tensor(name_in_file(name), is_quantised ? type : tensor_type::f32,
                      {one.shape.rbegin(), one.shape.rend()},
                      is_quantised ? model::quantise(one.values, type) : bytes_of(one.values));
    }
    return file;
  }

  std::filesystem::path write(const gguf_builder& file) {
    file.write(folder_ / "head.gguf");
    return folder_ / "head.gguf";
  }
  std::string problem_of(const gguf_builder& file, const std::string& kind) {
    const auto loaded = load(kind, write(file));
    return loaded ? "was accepted" : loaded.error().message();
  }
  std::uint32_t levels_of(const gguf_builder& file, const std::string& kind) {
    const auto loaded = load(kind, write(file));
    if (!loaded) throw std::runtime_error(loaded.error().message());
    return (*loaded)->traits().max_levels;
  }
  model::dflash_config config_of(const gguf_builder& file, const std::string& kind = "dflash") {
    const auto parsed = model::gguf_file::open(write(file));
    const auto config = model::read_dflash_config(*parsed, kind, {.num_layers = 2}, std::nullopt, {});
    if (!config) throw std::runtime_error(config.error().message());
    return *config;
  }

  /// Logits and confidences of a block's levels after a text, and of what a draft token adds to the second
  /// level.
  std::vector<float> all_outputs(const model::draft_head& head) {
    constexpr std::uint32_t block_size = 4, num_blocks = 6, length = 10;
    const model::head_traits traits = head.traits();
    const auto target_kv = target_->get().make_kv_storage(num_blocks, block_size, head.taps());
    make_up(*target_kv->features());
    const auto kv = head.make_kv_storage(num_blocks, block_size);
    paged_sequences paged(block_size, num_blocks, 3);
    paged.add_sequence(length + traits.num_block_rows + 1);
    const auto cell = [&](std::uint32_t slot) {
      const device::kv_copy at = paged.copy_of(0, slot, slot);
      return at.from_block.value * block_size + at.from_offset;
    };
    std::vector<device::batch_entry> rows;
    std::vector<std::uint32_t> cells, levels, wanted;
    const auto add = [&](device::batch_entry row, std::uint32_t position, std::uint32_t level) {
      row.token = token_id{static_cast<std::int32_t>(position * 5 % vocab)};
      if (level >= traits.first_level_row && level > 0)
        wanted.push_back(static_cast<std::uint32_t>(rows.size()));
      rows.push_back(row);
      cells.push_back(cell(position));
      levels.push_back(level);
    };
    for (const auto& row : paged.chain_rows(0, 0, length)) add(row, row.position.value, 0);
    for (const auto& row : paged.block_rows(0, length, length + traits.num_block_rows))
      add(row, length - 1, row.slot.value + 1 - length);
    std::vector<float> outputs =
        run(head, paged.batch(rows), {target_kv->features(), cells, levels}, *kv, wanted);
    if (!traits.adds_to_levels()) return outputs;
    const std::vector<kv_slot> path{kv_slot{length + traits.num_block_rows}};
    const std::vector<device::batch_entry> below{{.token = token_id{7},
                                                  .position = token_position{length},
                                                  .slot = path.front(),
                                                  .path_begin = 0,
                                                  .path_length = 1}};
    device::row_batch batch = paged.batch(below);
    batch.paths = path;
    const std::vector<std::uint32_t> above{cell(length - 1)}, first{1}, row{0};
    const auto added = run(head, batch, {nullptr, above, first}, *kv, row);
    outputs.insert(outputs.end(), added.begin(), added.end());
    return outputs;
  }

  std::vector<float> run(const model::draft_head& head, const device::row_batch& batch,
                         const model::head_features& features, model::kv_storage& kv,
                         const std::vector<std::uint32_t>& wanted) {
    std::vector<float> logits(wanted.size() * head.info().vocab_size);
    std::vector<float> confidences(head.traits().has_confidence ? wanted.size() : 0);
    target_->run([&](device::ops& ops) {
      head.forward(ops, batch, features, &kv, {wanted, logits, 1, confidences});
    });
    logits.insert(logits.end(), confidences.begin(), confidences.end());
    return logits;
  }
};

TEST_F(gguf_block_head_test, computes_what_the_same_head_in_a_directory_does) {
  for (const std::string kind : {"dflash", "dspark"}) {
    SCOPED_TRACE(kind);
    auto head = kind == "dflash" ? dflash() : dspark();
    const auto in_directory = load(kind, head);
    ASSERT_TRUE(in_directory) << in_directory.error().message();
    const auto in_file = load(kind, write(file_of(head)));
    ASSERT_TRUE(in_file) << in_file.error().message();
    EXPECT_THAT((*in_file)->taps(), ElementsAre(layer_index{1}, layer_index{5}));
    EXPECT_EQ((*in_file)->info().context_length, 64U);
    EXPECT_EQ((*in_file)->traits().max_levels, kind == "dflash" ? 3U : 4U);
    EXPECT_EQ((*in_file)->traits().has_confidence, kind == "dspark");
    expect_equal(all_outputs(**in_file), all_outputs(**in_directory));
    EXPECT_EQ(model::kind_of_head(folder_ / "head.gguf").value(), kind);
  }
}

TEST_F(gguf_block_head_test, an_override_is_checked_like_the_files_own_value) {
  const auto parsed = model::gguf_file::open(write(file_of(dflash())));
  model::head_overrides overrides;
  overrides.rope_theta = 0.5;
  const auto config =
      model::read_dflash_config(*parsed, "dflash", {.num_layers = 2}, std::nullopt, overrides);
  ASSERT_FALSE(config);
  EXPECT_THAT(config.error().message(), ::testing::AllOf(HasSubstr("head.gguf"), HasSubstr("theta")));
}

TEST_F(gguf_block_head_test, keeps_quantised_matrices_as_stored) {
  const auto head = dspark();
  const auto plain = load("dspark", write(file_of(head)));
  const auto quantised = load("dspark", write(file_of(head, tensor_type::q8_0)));
  ASSERT_TRUE(plain && quantised) << quantised.error().message();
  EXPECT_LT((*quantised)->info().weights_bytes, (*plain)->info().weights_bytes * 2 / 3);
  head.write(folder_.path());
  const std::shared_ptr<const model::transformer> target(std::shared_ptr<void>(), &target_->get());
  const auto on_load =
      model::load_draft_head("dspark", folder_.path(), target, {kv_type::f32, {}, tensor_type::q8_0},
                             target_->device(), target_->device());
  ASSERT_TRUE(on_load) << on_load.error().message();
  expect_equal(all_outputs(**quantised), all_outputs(**on_load));
}

TEST_F(gguf_block_head_test, slots_of_dspark_predict_the_token_behind_them_where_nothing_is_said) {
  const auto file = [&](const tiny_head& head, bool from_anchor) {
    return file_of(head).set_bool("dflash.sample_from_anchor", from_anchor);
  };
  EXPECT_EQ(levels_of(file_of(dflash()), "dflash"), 3U);
  EXPECT_EQ(levels_of(file(dflash(), true), "dflash"), 4U);
  EXPECT_EQ(levels_of(file_of(dspark()), "dspark"), 4U);
  EXPECT_EQ(levels_of(file(dspark(), false), "dspark"), 3U);
  EXPECT_EQ(levels_of(file_of(dflash()).remove("dflash.block_size"), "dflash"), 15U) << "blocks of 16";
}

TEST_F(gguf_block_head_test, a_draft_vocabulary_holds_the_targets_ids) {
  constexpr std::uint64_t drafted = 100;
  auto head = dspark();
  head.add("embed_tokens.weight", {vocab, hidden});
  head.add("lm_head.weight", {drafted, hidden});
  head.add("markov_head.markov_w2.weight", {drafted, 8});
  std::vector<std::int64_t> ids(drafted);
  for (std::size_t i = 0; i < drafted; ++i) ids[i] = static_cast<std::int64_t>(2 * i + 1);
  constexpr auto i64 = static_cast<tensor_type>(27); // GGML's number
  auto file = file_of(head).add_tensor("d2t", i64, {drafted}, bytes_of(ids));
  const auto loaded = load("dspark", write(file));
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ((*loaded)->info().vocab_size, drafted);
  ASSERT_EQ((*loaded)->target_ids().size(), drafted);
  EXPECT_EQ((*loaded)->target_ids()[99], token_id{199});
  EXPECT_THAT(problem_of(file.remove_tensor("d2t"), "dspark"), HasSubstr("must have the shape [288][32]"));
}

TEST_F(gguf_block_head_test, a_confidence_head_may_lack_its_bias_and_be_a_vector) {
  auto file = file_of(dspark());
  const auto whole = load("dspark", write(file));
  ASSERT_TRUE(whole) << whole.error().message();
  const auto weights = dspark().tensors.at("confidence_head.proj.weight").values;
  file.remove_tensor("conf_proj.weight")
      .add_tensor("conf_proj.weight", tensor_type::f32, {weights.size()}, bytes_of(weights));
  const auto vector = load("dspark", write(file)); // programs that copy such files drop dimensions of 1
  ASSERT_TRUE(vector) << vector.error().message();
  expect_equal(all_outputs(**vector), all_outputs(**whole));
  const auto unbiased = load("dspark", write(file.remove_tensor("conf_proj.bias")));
  ASSERT_TRUE(unbiased) << unbiased.error().message();
  EXPECT_TRUE((*unbiased)->traits().has_confidence);
}

TEST_F(gguf_block_head_test, windows_end_at_the_slot_and_are_not_causal) {
  const auto windowed = [&](bool first, bool second) {
    const std::array<std::byte, 14> flags{std::byte{7},     {}, {}, {}, // an array of booleans, two of them
                                          std::byte{2},     {}, {}, {}, {}, {}, {}, {}, std::byte{first},
                                          std::byte{second}};
    return file_of(dflash())
        .set_uint32("dflash.attention.sliding_window", 9)
        .set_raw("dflash.attention.sliding_window_pattern", 9, flags);
  };
  const auto config = config_of(windowed(false, true));
  EXPECT_THAT(config.has_window, ElementsAre(false, true));
  EXPECT_EQ(config.window.size, 9U);
  EXPECT_TRUE(config.window.ends_at_slot);
  EXPECT_FALSE(config.window.is_causal);
  EXPECT_FALSE(config_of(windowed(false, true).set_bool("dflash.attention.causal", false)).window.is_causal);
  const auto causal = [](gguf_builder file) { return file.set_bool("dflash.attention.causal", true); };
  EXPECT_TRUE(config_of(causal(windowed(true, true))).window.is_causal);
  EXPECT_THAT(problem_of(causal(windowed(false, true)), "dflash"),
              HasSubstr("'dflash.attention.causal' must be false: layers of full attention"));
  EXPECT_THAT(problem_of(causal(file_of(dflash())), "dflash"), HasSubstr("layers of full attention"));
  EXPECT_THAT(problem_of(windowed(false, true).set_uint32("dflash.attention.sliding_window", 3), "dflash"),
              HasSubstr("is 3, must be 4 to 1073741824"));
  EXPECT_THAT(problem_of(file_of(dflash()).set_uint32("dflash.attention.sliding_window", 9), "dflash"),
              HasSubstr("must be an array of one flag for each layer"));
}

TEST_F(gguf_block_head_test, refuses_what_does_not_fit_with_key_and_both_values) {
  const auto file = [&] { return file_of(dflash()); };
  EXPECT_THAT(problem_of(file().set_uint32("dflash.embedding_length", 64), "dflash"),
              AllOf(HasSubstr("'dflash.embedding_length' is 64"), HasSubstr("is 32")));
  EXPECT_THAT(problem_of(file().set_uint32("dflash.vocab_size", 289), "dflash"),
              AllOf(HasSubstr("289 tokens"), HasSubstr("288")));
  EXPECT_THAT(problem_of(file().set_int32s("dflash.target_layers", std::array{0, 6}), "dflash"),
              AllOf(HasSubstr("'dflash.target_layers' must hold 1 to 8"), HasSubstr("has 8 layers")));
  EXPECT_THAT(problem_of(file().remove("dflash.target_layers"), "dflash"), HasSubstr("must name layers"));
  EXPECT_THAT(problem_of(file().set_int32s("dflash.target_layers", std::array{2, 4, 6}), "dflash"),
              HasSubstr("must have the shape [32][96], has [32][64]"));
  EXPECT_THAT(problem_of(file().remove("tokenizer.ggml.mask_token_id"), "dflash"),
              HasSubstr("'tokenizer.ggml.mask_token_id' is missing"));
  EXPECT_THAT(problem_of(file().set_uint32("tokenizer.ggml.mask_token_id", 288), "dflash"),
              HasSubstr("no row for the mask token 288"));
  EXPECT_THAT(problem_of(file().set_uint32("dflash.block_size", 1), "dflash"),
              HasSubstr("'dflash.block_size' is 1, must be 2 to 64"));
  EXPECT_THAT(problem_of(file_of(dspark()).remove("dflash.block_size"), "dspark"),
              HasSubstr("'dflash.block_size' is missing"));
  EXPECT_THAT(problem_of(file_of(dspark()), "dflash"), HasSubstr("is a head of kind dspark"));
  EXPECT_THAT(problem_of(file(), "dspark"), HasSubstr("is a head of kind dflash"));
}

TEST_F(gguf_block_head_test, refuses_missing_tensors_and_those_of_other_networks) {
  for (const char* const name :
       {"fc.weight", "enc.output_norm.weight", "output_norm.weight", "blk.1.attn_q_norm.weight",
        "blk.0.attn_norm.weight", "blk.1.ffn_down.weight", "markov_w2.weight"})
    EXPECT_THAT(problem_of(file_of(dspark()).remove_tensor(name), "dspark"),
                HasSubstr("tensor '" + std::string(name) + "' is missing"));
  EXPECT_THAT(problem_of(file_of(dspark()).remove_tensor("markov_w1.weight"), "dspark"),
              HasSubstr("'conf_proj.weight' must have the shape [32], has [1][40]"));
  EXPECT_THAT(problem_of(file_of(dspark()).set_uint32("dflash.vocab_size", 280), "dspark"),
              HasSubstr("must have the shape [280][8], has [288][8]"));
  const std::vector<float> values(4);
  EXPECT_THAT(problem_of(file_of(dflash()).add_tensor("blk.0.attn_sinks.weight", tensor_type::f32, {4},
                                                      bytes_of(values)),
                         "dflash"),
              HasSubstr("'blk.0.attn_sinks.weight' has no meaning"));
  EXPECT_THAT(problem_of(file_of(dflash()).set_uint32("dflash.selector_rank", 256), "dflash"),
              HasSubstr("'dflash.selector_rank' is of DFlash2"));
  EXPECT_THAT(problem_of(file_of(dflash()).set_uint32("dflash.hyper_connection.count", 4), "dflash"),
              HasSubstr("DeepSeek-V4"));
  EXPECT_THAT(problem_of(file_of(dflash()).set_float32("dflash.logit_scale", 0.5F), "dflash"),
              HasSubstr("'dflash.logit_scale' must be 1"));
  EXPECT_THAT(problem_of(file_of(dflash()).set_float32("dflash.final_logit_softcapping", 30), "dflash"),
              HasSubstr("soft caps"));
}

TEST_F(gguf_block_head_test, is_shown_with_its_block_and_its_markov_head) {
  auto report = model::inspect_head(write(file_of(dspark())));
  ASSERT_TRUE(report) << report.error().message();
  const auto fact = [&](std::string_view name) {
    for (const auto& one : report->head.facts)
      if (one.name == name) return one.value;
    return std::string();
  };
  EXPECT_EQ(report->problem, "");
  EXPECT_EQ(report->head.kind, "dspark");
  EXPECT_EQ(fact("taps"), "[1, 5]");
  EXPECT_EQ(fact("layers") + fact("block_size") + fact("levels") + fact("mask_token"), "2443");
  EXPECT_EQ(fact("alignment") + fact("markov_head") + fact("markov_rank"), "\"next\"\"vanilla\"8");
  EXPECT_EQ(fact("confidence_head") + fact("own_embedding"), "truefalse");
  const auto in_file = load("dspark", folder_ / "head.gguf");
  add_fit(*report, "tiny.gguf", in_file);
  EXPECT_EQ(fact("fits") + fact("max_levels") + fact("default_draft_length"), "true44");
}

} // namespace
} // namespace paceline::test

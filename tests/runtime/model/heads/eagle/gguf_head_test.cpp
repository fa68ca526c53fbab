// EAGLE-3 heads in GGUF files of llama.cpp's architecture "eagle3": they compute what the same head in a
// directory does.
#include "runtime/model/heads/files/head_kind.hpp"
#include "runtime/model/heads/files/quantise.hpp"
#include "runtime/model/kv_cells.hpp"
#include "tests/support/head_test.hpp"

#include <gmock/gmock.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>

namespace paceline::test::gguf_head_test {
namespace {

using device::tensor_type;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint32_t num_heads = 4, num_kv_heads = 2, head_dim = 8;

std::vector<std::byte> bytes_of(const auto& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// The rows of queries or keys as in GGUF files of Llama, where the halves of a head alternate.
std::vector<float> interleaved(const tiny_head::tensor& from, std::uint32_t heads) {
  const std::size_t cols = from.shape[1], half = head_dim / 2;
  std::vector<float> rows(from.values.size());
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t i = 0; i < half; ++i)
      for (std::size_t j = 0; j < 2; ++j)
        std::memcpy(&rows[(h * head_dim + 2 * i + j) * cols],
                    &from.values[(h * head_dim + j * half + i) * cols], cols * sizeof(float));
  return rows;
}

class gguf_head_test : public head_test {
 protected:
  tiny_head eagle3() {
    tiny_head made = tiny_head::eagle3(hidden, hidden, vocab, 100);
    made.config["rope_theta"] = 500.0;
    return made;
  }

  /// The file of a head; matrices of `type`, which is F32 or Q8_0.
  gguf_builder file_of(const tiny_head& head, tensor_type type = tensor_type::f32) {
    gguf_builder file;
    file.set_string("general.architecture", "eagle3")
        .set_uint32("eagle3.block_count", 1)
        .set_uint32("eagle3.context_length", 64)
        .set_uint32("eagle3.embedding_length", hidden)
        .set_uint32("eagle3.feed_forward_length", 48)
        .set_uint32("eagle3.attention.head_count", num_heads)
        .set_uint32("eagle3.attention.head_count_kv", num_kv_heads)
        .set_uint32("eagle3.attention.key_length", head_dim)
        .set_float32("eagle3.attention.layer_norm_rms_epsilon", 1e-5F)
        .set_float32("eagle3.rope.freq_base", 500)
        .set_uint32("eagle3.vocab_size", vocab)
        .set_uint32("eagle3.target_hidden_size", hidden)
        .set_int32s("eagle3.target_layers", std::array{2, 4, 5});
    for (const auto& [name, to] : {std::pair{"fc", "fc"},
                                   {"norm", "output_norm"},
                                   {"lm_head", "output"},
                                   {"midlayer.input_layernorm", "blk.0.attn_norm"},
                                   {"midlayer.hidden_norm", "blk.0.attn_norm_2"},
                                   {"midlayer.self_attn.q_proj", "blk.0.attn_q"},
                                   {"midlayer.self_attn.k_proj", "blk.0.attn_k"},
                                   {"midlayer.self_attn.v_proj", "blk.0.attn_v"},
                                   {"midlayer.self_attn.o_proj", "blk.0.attn_output"},
                                   {"midlayer.post_attention_layernorm", "blk.0.ffn_norm"},
                                   {"midlayer.mlp.gate_proj", "blk.0.ffn_gate"},
                                   {"midlayer.mlp.up_proj", "blk.0.ffn_up"},
                                   {"midlayer.mlp.down_proj", "blk.0.ffn_down"}}) {
      tiny_head::tensor one = head.tensors.at(std::string(name) + ".weight");
      if (std::string_view(to).ends_with("attn_q")) one.values = interleaved(one, num_heads);
      if (std::string_view(to).ends_with("attn_k")) one.values = interleaved(one, num_kv_heads);
      const bool is_quantised = type != tensor_type::f32 && one.shape.size() == 2 && one.shape[1] % 32 == 0;
      file.add_tensor(std::string(to) + ".weight", is_quantised ? type : tensor_type::f32,
                      {one.shape.rbegin(), one.shape.rend()},
                      is_quantised ? model::quantise(one.values, type) : bytes_of(one.values));
    }
    std::vector<std::int64_t> ids = head.tensors.at("d2t").integers;
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] += static_cast<std::int64_t>(i);
    constexpr auto i64 = static_cast<tensor_type>(27); // GGML's number
    return file.add_tensor("d2t", i64, {ids.size()}, bytes_of(ids));
  }

  std::filesystem::path write(const gguf_builder& file) {
    file.write(folder_ / "head.gguf");
    return folder_ / "head.gguf";
  }
  std::string problem_of(const gguf_builder& file) {
    const auto loaded = load("eagle3", write(file));
    return loaded ? "was accepted" : loaded.error().message();
  }

  /// Logits of rows of a text and of a draft below its last row.
  std::vector<float> all_logits(const model::draft_head& head) {
    constexpr std::uint32_t block_size = 4, num_blocks = 6, num_rows = 20;
    const auto target_kv = target_->get().make_kv_storage(num_blocks, block_size, head.taps());
    make_up(*target_kv->features());
    const auto kv = head.make_kv_storage(num_blocks, block_size);
    std::vector<float> logits;
    paged_sequences paged(block_size, num_blocks, 3);
    paged.add_sequence(num_rows + 1);
    for (const std::uint32_t begin : {0U, num_rows}) {
      auto rows = paged.chain_rows(0, begin, begin == 0 ? num_rows : num_rows + 1);
      std::vector<std::uint32_t> cells, all;
      for (auto& row : rows) {
        row.token = token_id{static_cast<std::int32_t>(row.position.value * 5 % vocab)};
        const std::uint32_t from = begin == 0 ? row.position.value : num_rows - 1;
        const device::kv_copy at = paged.copy_of(0, from, from);
        cells.push_back(at.from_block.value * block_size + at.from_offset);
        all.push_back(static_cast<std::uint32_t>(all.size()));
      }
      std::vector<float> part(rows.size() * head.info().vocab_size);
      target_->run([&](device::ops& ops) {
        head.forward(ops, paged.batch(rows), {begin == 0 ? target_kv->features() : nullptr, cells}, kv.get(),
                     {all, part});
      });
      logits.insert(logits.end(), part.begin(), part.end());
    }
    return logits;
  }
};

TEST_F(gguf_head_test, computes_what_the_same_head_in_a_directory_does) {
  auto head = eagle3();
  for (const bool norms : {false, true}) {
    if (norms) {
      head.config["norm_before_residual"] = head.config["norm_before_fc"] = true;
      head.add("input_norm.weight", {3 * hidden});
    }
    const auto in_directory = load("eagle3", head);
    ASSERT_TRUE(in_directory) << in_directory.error().message();
    auto file = file_of(head);
    if (norms)
      file.set_bool("eagle3.norm_before_residual", true)
          .set_bool("eagle3.norm_before_fc", true)
          .add_tensor("enc.output_norm.weight", tensor_type::f32, {3 * hidden},
                      bytes_of(head.tensors.at("input_norm.weight").values));
    const auto in_file = load("eagle3", write(file));
    ASSERT_TRUE(in_file) << in_file.error().message();
    EXPECT_THAT((*in_file)->taps(), ElementsAre(layer_index{1}, layer_index{3}, layer_index{4}));
    EXPECT_TRUE(std::ranges::equal((*in_file)->target_ids(), (*in_directory)->target_ids()));
    EXPECT_EQ((*in_file)->info().context_length, 64U);
    EXPECT_EQ((*in_file)->num_embedded(), vocab);
    expect_equal(all_logits(**in_file), all_logits(**in_directory));
  }
  EXPECT_EQ(model::kind_of_head(folder_ / "head.gguf").value(), "eagle3");
}

TEST_F(gguf_head_test, keeps_quantised_matrices_as_stored) {
  const auto head = eagle3();
  const auto plain = load("eagle3", write(file_of(head)));
  const auto quantised = load("eagle3", write(file_of(head, tensor_type::q8_0)));
  ASSERT_TRUE(plain && quantised) << quantised.error().message();
  EXPECT_LT((*quantised)->info().weights_bytes, (*plain)->info().weights_bytes / 2);
  head.write(folder_.path());
  const std::shared_ptr<const model::transformer> target(std::shared_ptr<void>(), &target_->get());
  const auto on_load =
      model::load_draft_head("eagle3", folder_.path(), target, {kv_type::f32, {}, tensor_type::q8_0},
                             target_->device(), target_->device());
  ASSERT_TRUE(on_load) << on_load.error().message();
  expect_equal(all_logits(**quantised), all_logits(**on_load));
}

TEST_F(gguf_head_test, an_override_is_checked_like_the_files_own_value) {
  const std::shared_ptr<const model::transformer> target(std::shared_ptr<void>(), &target_->get());
  model::head_load_options options{kv_type::f32, {}};
  options.overrides.rope_theta = 0.5;
  const auto loaded = model::load_draft_head("eagle3", write(file_of(eagle3())), target, options,
                                             target_->device(), target_->device());
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message(), ::testing::AllOf(HasSubstr("head.gguf"), HasSubstr("theta")));
}

TEST_F(gguf_head_test, refuses_to_quantise_what_is_not_finite) {
  auto head = eagle3();
  head.tensors.at("fc.weight").values[5] = std::numeric_limits<float>::quiet_NaN();
  head.write(folder_.path());
  const std::shared_ptr<const model::transformer> target(std::shared_ptr<void>(), &target_->get());
  const auto loaded =
      model::load_draft_head("eagle3", folder_.path(), target, {kv_type::f32, {}, tensor_type::q4_0},
                             target_->device(), target_->device());
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message(), HasSubstr("'fc.weight' has values that are not finite"));
}

TEST_F(gguf_head_test, quantises_values_that_are_too_small_for_a_scale) {
  const std::vector<float> tiny(32, 1e-40F);
  for (const auto type : {tensor_type::q8_0, tensor_type::q4_0}) {
    const auto blocks = model::quantise(tiny, type);
    std::uint16_t scale = 1;
    std::memcpy(&scale, blocks.data(), sizeof(scale));
    EXPECT_EQ(scale & 0x7fffU, 0U) << "so that every value is 0";
    EXPECT_EQ(blocks[2], static_cast<std::byte>(type == tensor_type::q8_0 ? 0 : 0x88));
  }
}

TEST_F(gguf_head_test, uses_an_embedding_and_an_lm_head_of_all_tokens) {
  auto file = file_of(eagle3());
  file.remove_tensor("d2t").remove_tensor("output.weight");
  const auto borrowed = load("eagle3", write(file));
  ASSERT_TRUE(borrowed) << borrowed.error().message();
  EXPECT_EQ((*borrowed)->info().vocab_size, vocab);
  EXPECT_TRUE((*borrowed)->target_ids().empty());
  const std::vector<float> rows(std::size_t{vocab} * hidden, 0.25F);
  file.add_tensor("token_embd.weight", tensor_type::f32, {hidden, vocab}, bytes_of(rows));
  const auto own = load("eagle3", write(file));
  ASSERT_TRUE(own) << own.error().message();
  EXPECT_EQ((*own)->info().weights_bytes, (*borrowed)->info().weights_bytes + rows.size() * sizeof(float));
}

TEST_F(gguf_head_test, refuses_what_does_not_fit_with_key_and_both_values) {
  const auto head = eagle3();
  EXPECT_THAT(problem_of(file_of(head).set_uint32("eagle3.target_hidden_size", 64)),
              AllOf(HasSubstr("'eagle3.target_hidden_size' is 64"), HasSubstr("is 32")));
  EXPECT_THAT(problem_of(file_of(head).set_uint32("eagle3.vocab_size", 289)),
              AllOf(HasSubstr("289 tokens"), HasSubstr("288")));
  EXPECT_THAT(problem_of(file_of(head).set_int32s("eagle3.target_layers", std::array{0, 4, 5})),
              AllOf(HasSubstr("'eagle3.target_layers' must hold 1 to 8"), HasSubstr("has 8 layers")));
  EXPECT_THAT(problem_of(file_of(head).remove("eagle3.target_layers")), HasSubstr("must name layers"));
  EXPECT_EQ(problem_of(file_of(head)
                           .remove("eagle3.target_layers")
                           .set_int32s("eagle3.extract_layers", std::array{2, 4, 5})),
            "was accepted");
  EXPECT_THAT(problem_of(file_of(head).set_int32s("eagle3.target_layers", std::array{2, 4})),
              HasSubstr("must have the shape [32][64], has [32][96]"));
  EXPECT_THAT(problem_of(file_of(head).set_bool("eagle3.norm_before_fc", true)),
              HasSubstr("tensor 'enc.output_norm.weight' is missing"));
  EXPECT_THAT(problem_of(file_of(head).remove_tensor("d2t")), HasSubstr("must have the shape [288][32]"));
  EXPECT_THAT(problem_of(file_of(head).remove_tensor("blk.0.attn_norm_2.weight")),
              HasSubstr("tensor 'blk.0.attn_norm_2.weight' is missing"));
  auto unsorted = head;
  std::swap(unsorted.tensors.at("d2t").integers[3], unsorted.tensors.at("d2t").integers[9]);
  EXPECT_THAT(problem_of(file_of(unsorted)), HasSubstr("'d2t' must give ascending ids"));
  EXPECT_THAT(problem_of(file_of(head).set_string("general.architecture", "llama")),
              AllOf(HasSubstr("'general.architecture' is 'llama'"), HasSubstr("eagle3")));
  const auto other = load("medusa", write(file_of(head)));
  EXPECT_THAT(other ? "" : other.error().message(), HasSubstr("is a head of kind eagle3"));
}

} // namespace
} // namespace paceline::test::gguf_head_test

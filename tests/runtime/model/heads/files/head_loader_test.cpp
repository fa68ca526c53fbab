// Heads of other families than EAGLE from their published layouts: what is read, what is refused and how.
// tests/e2e/head_parity.py compares the numbers with a reference.
#include "runtime/model/heads/files/head_kind.hpp"
#include "tests/support/head_test.hpp"

#include <gmock/gmock.h>

#include <numeric>
#include <string>
#include <vector>

namespace paceline::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class head_loader_test : public head_test {
 protected:
  tiny_head medusa() { return tiny_head::medusa(hidden, vocab); }
  tiny_head medusa_vllm() { return tiny_head::medusa_vllm(hidden, vocab); }
  tiny_head hydra() { return tiny_head::hydra(hidden, vocab); }
  tiny_head hydra_prefix() { return tiny_head::hydra_prefix(hidden, vocab, ffn); }
  tiny_head speculator() { return tiny_head::mlp_speculator(hidden, vocab); }
  tiny_head mtp_next() { return tiny_head::mtp_next(hidden, vocab); }
  tiny_head mtp_mimo() { return tiny_head::mtp_mimo(hidden, vocab); }
  /// A module as DeepSeek's: a layer behind the last one, with an embedding and an LM head.
  tiny_head mtp_deepseek() {
    tiny_head made = mtp_mimo();
    const auto plain = made.tensors;
    for (const auto& [name, one] : plain) {
      std::string own = name.substr(std::string("model.mtp_layers.0.").size());
      for (const auto& [from, to] : {std::pair{"input_proj.", "eh_proj."},
                                     {"token_layernorm.", "enorm."},
                                     {"hidden_layernorm.", "hnorm."},
                                     {"final_layernorm.", "shared_head.norm."}})
        if (own.starts_with(from)) own.replace(0, std::string(from).size(), to);
      made.rename(name, "model.layers.8." + own);
    }
    made.add("model.layers.8.embed_tokens.weight", {vocab, hidden});
    made.add("model.layers.8.shared_head.head.weight", {vocab, hidden});
    return made;
  }

  void expect_kind(const std::string& kind, const tiny_head& head) {
    const auto loaded = load(kind, head);
    EXPECT_TRUE(loaded) << loaded.error().message();
    EXPECT_EQ(model::kind_of_head(folder_.path()).value(), kind);
  }
};

TEST_F(head_loader_test, knows_the_kind_of_a_head) {
  expect_kind("medusa", medusa());
  expect_kind("medusa", medusa_vllm());
  expect_kind("hydra", hydra());
  expect_kind("hydra", hydra_prefix());
  expect_kind("mlp_speculator", speculator());
  expect_kind("mtp", mtp_next());
  expect_kind("mtp", mtp_mimo());
  expect_kind("mtp", mtp_deepseek());
}

TEST_F(head_loader_test, an_mlp_speculator_that_is_not_tied_has_all_tensors_of_a_level) {
  for (const char* const part :
       {"emb.1.weight", "proj.2.weight", "head.1.weight", "ln.2.weight", "ln.1.bias"}) {
    auto head = speculator();
    head.tensors.erase(part);
    EXPECT_THAT(problem("mlp_speculator", head), HasSubstr("'" + std::string(part) + "' is missing"));
  }
}

TEST_F(head_loader_test, a_tied_mlp_speculator_has_one_level_or_copies_of_it) {
  auto head = speculator();
  head.config["tie_weights"] = true;
  for (const std::string part : {"emb", "head", "ln"})
    for (const std::string level : {".1.", ".2."}) head.copy(part + level + "weight", part + ".0.weight");
  for (const std::string level : {".1.", ".2."}) head.copy("ln" + level + "bias", "ln.0.bias");
  head.copy("proj.2.weight", "proj.1.weight");
  const auto copied = load("mlp_speculator", head);
  ASSERT_TRUE(copied) << copied.error().message();
  auto once = head;
  std::erase_if(once.tensors, [](const auto& one) {
    return one.first.find(".2.") != std::string::npos ||
           (one.first.find(".1.") != std::string::npos && !one.first.starts_with("proj."));
  });
  const auto stored_once = load("mlp_speculator", once);
  ASSERT_TRUE(stored_once) << stored_once.error().message();
  EXPECT_EQ((*copied)->info().weights_bytes, (*stored_once)->info().weights_bytes);
  head.tensors.at("emb.2.weight").values[7] += 1;
  EXPECT_THAT(problem("mlp_speculator", head),
              HasSubstr("'emb.2.weight' differs from 'emb.0.weight', but 'tie_weights' is true"));
  once.tensors.erase("proj.1.weight");
  EXPECT_THAT(problem("mlp_speculator", once), HasSubstr("'proj.1.weight' is missing"));
}

TEST_F(head_loader_test, a_hydra_head_is_of_the_architecture_that_its_config_says) {
  auto head = hydra();
  head.config["hydra_head_arch"] = "prefix-mlp";
  EXPECT_THAT(problem("hydra", head), HasSubstr("config.json: key 'hydra_head_arch' is 'prefix-mlp', the "
                                                "file has the tensors of 'mlp'"));
  head = hydra_prefix();
  head.config["hydra_head_arch"] = "mlp";
  EXPECT_THAT(problem("hydra", head), HasSubstr("is 'mlp', the file has the tensors of 'prefix-mlp'"));
  head.config["hydra_head_arch"] = "eagle-attn";
  EXPECT_THAT(problem("hydra", head), HasSubstr("is 'eagle-attn'"));
  head = hydra();
  head.config["grounded_heads"] = false;
  EXPECT_THAT(problem("hydra", head), HasSubstr("key 'grounded_heads' is false"));
  head = hydra();
  head.config["hidden_state_offset"] = 8;
  EXPECT_THAT(problem("hydra", head), HasSubstr("key 'hidden_state_offset' is 8, the target has 8 layers"));
  head = hydra_prefix();
  head.tensors.erase("prefix_embeding_layer.norm.weight");
  EXPECT_THAT(problem("hydra", head), HasSubstr("'prefix_embeding_layer.norm.weight' is missing"));
}

TEST_F(head_loader_test, a_hydra_head_may_read_an_earlier_state) {
  auto head = hydra();
  EXPECT_EQ((*load("hydra", head))->taps()[0], layer_index{8}) << "after the final norm";
  head.config["hidden_state_offset"] = 1;
  EXPECT_EQ((*load("hydra", head))->taps()[0], layer_index{6}) << "the one before the last layer's";
  head.config["hidden_state_offset"] = 3;
  EXPECT_EQ((*load("hydra", head))->taps()[0], layer_index{4});
}

TEST_F(head_loader_test, a_hydra_file_may_hold_what_its_module_shares_with_the_base_model) {
  auto head = hydra_prefix();
  head.add("input_embed_fn.weight", {vocab, hidden});
  head.add("prefix_embeding_layer.layers.0.self_attn.rotary_emb.inv_freq", {8});
  EXPECT_EQ(problem("hydra", head), "was accepted");
}

TEST_F(head_loader_test, a_token_map_counts_where_the_vocabulary_is_truncated) {
  auto head = medusa_vllm();
  head.tensors["token_map"] = {{3}, {}, {200, 5, 17}};
  head.config["vocab_size"] = vocab;
  head.config["truncated_vocab_size"] = vocab;
  const auto whole = load("medusa", head);
  ASSERT_TRUE(whole) << whole.error().message();
  EXPECT_TRUE((*whole)->target_ids().empty());
  head.config["truncated_vocab_size"] = 3;
  const auto truncated = load("medusa", head);
  ASSERT_TRUE(truncated) << truncated.error().message();
  EXPECT_EQ((*truncated)->target_ids().size(), 3U);
}

TEST_F(head_loader_test, biases_are_of_all_heads_or_of_none) {
  for (const char* const bias : {"1.0.linear.bias", "0.0.linear.bias"}) {
    auto head = medusa();
    head.tensors.erase(bias);
    EXPECT_THAT(problem("medusa", head), HasSubstr("'" + std::string(bias) + "' is missing"));
  }
  for (const char* const bias : {"hydra_mlp.1.0.linear.bias", "hydra_lm_head.0.bias"}) {
    auto head = hydra();
    head.tensors.erase(bias);
    EXPECT_THAT(problem("hydra", head), HasSubstr("'" + std::string(bias) + "' is missing"));
  }
  auto head = medusa_vllm();
  head.config["medusa_fc_bias"] = false;
  EXPECT_THAT(problem("medusa", head), HasSubstr("key 'medusa_fc_bias' is false"));
  for (const char* const bias : {"blocks.0.layers.0.bias", "blocks.1.layers.0.bias"})
    head.tensors.erase(bias);
  EXPECT_EQ(problem("medusa", head), "was accepted");
  head.config["medusa_fc_bias"] = true;
  EXPECT_THAT(problem("medusa", head), HasSubstr("key 'medusa_fc_bias' is true"));
}

TEST_F(head_loader_test, an_lm_head_of_fewer_tokens_needs_a_token_map) {
  auto head = medusa_vllm();
  for (const char* const name : {"lm_heads.0.weight", "lm_heads.1.weight"}) head.add(name, {100, hidden});
  EXPECT_THAT(problem("medusa", head), AllOf(HasSubstr("'lm_heads.0.weight' has 100 rows"),
                                             HasSubstr("288 tokens"), HasSubstr("token_map")));
  std::vector<std::int64_t> ids(100);
  std::iota(ids.begin(), ids.end(), 3);
  head.tensors["token_map"] = {{100}, {}, ids};
  EXPECT_EQ(problem("medusa", head), "was accepted");
  head.tensors["token_map"].integers[5] = 288;
  EXPECT_THAT(problem("medusa", head), HasSubstr("'token_map' names token 288, the target has 288"));
  head.tensors["token_map"].integers[5] = 7;
  EXPECT_THAT(problem("medusa", head), HasSubstr("'token_map' names token 7 twice"));
}

TEST_F(head_loader_test, a_token_map_has_no_more_ids_than_the_target_has_tokens) {
  auto head = medusa_vllm();
  head.tensors["token_map"] = {{1000}, {}, std::vector<std::int64_t>(1000, 3)};
  EXPECT_THAT(problem("medusa", head), HasSubstr("'token_map' names 1000 tokens, the target has 288"));
}

TEST_F(head_loader_test, of_whole_lm_heads_the_rows_that_the_token_map_names_are_used) {
  auto head = medusa_vllm();
  head.tensors["token_map"] = {{3}, {}, {200, 5, 17}};
  const auto whole = load("medusa", head);
  ASSERT_TRUE(whole) << whole.error().message();
  EXPECT_EQ((*whole)->info().vocab_size, 3U);
  for (const char* const name : {"lm_heads.0.weight", "lm_heads.1.weight"}) {
    auto& one = head.tensors.at(name);
    std::vector<float> rows;
    for (const std::size_t row : {200U, 5U, 17U})
      rows.insert(rows.end(), one.values.begin() + static_cast<std::ptrdiff_t>(row * hidden),
                  one.values.begin() + static_cast<std::ptrdiff_t>((row + 1) * hidden));
    one = {{3, hidden}, rows};
  }
  const auto chosen = load("medusa", head);
  ASSERT_TRUE(chosen) << chosen.error().message();
  EXPECT_EQ(logits_of(**whole), logits_of(**chosen));
}

TEST_F(head_loader_test, reads_the_shared_lm_head_of_vllm) {
  auto head = medusa_vllm();
  head.config["original_lm_head"] = true;
  EXPECT_THAT(problem("medusa", head), HasSubstr("'original_lm_head' is true, the file has"));
  head.tensors.erase("lm_heads.1.weight");
  const auto numbered = load("medusa", head);
  ASSERT_TRUE(numbered) << numbered.error().message();
  head.rename("lm_heads.0.weight", "lm_head.weight");
  const auto named = load("medusa", head);
  ASSERT_TRUE(named) << named.error().message();
  EXPECT_EQ(logits_of(**numbered), logits_of(**named));
}

TEST_F(head_loader_test, reads_the_heads_of_a_whole_medusa_model) {
  const auto alone = load("medusa", medusa());
  ASSERT_TRUE(alone) << alone.error().message();
  auto head = medusa();
  const auto plain = head.tensors;
  for (const auto& [name, one] : plain) head.rename(name, "medusa_head." + name);
  head.add("model.layers.0.self_attn.q_proj.weight", {hidden, hidden});
  head.add("lm_head.weight", {vocab, hidden});
  head.config = {{"architectures", {"MistralForCausalLM"}}, {"hidden_size", hidden}};
  const auto whole = load("medusa", head);
  ASSERT_TRUE(whole) << whole.error().message();
  EXPECT_EQ((*whole)->info().weights_bytes, (*alone)->info().weights_bytes);
  EXPECT_EQ(model::kind_of_head(folder_.path()).value(), "medusa");
}

TEST_F(head_loader_test, refuses_a_second_module) {
  auto head = mtp_mimo();
  head.copy("model.mtp_layers.1.input_proj.weight", "model.mtp_layers.0.input_proj.weight");
  EXPECT_THAT(problem("mtp", head),
              AllOf(HasSubstr("'model.mtp_layers.1.input_proj.weight'"), HasSubstr("second module")));
  head = mtp_next();
  head.copy("mtp.layers.1.self_attn.o_proj.weight", "mtp.layers.0.self_attn.o_proj.weight");
  EXPECT_THAT(problem("mtp", head), HasSubstr("second module"));
  head = mtp_deepseek();
  head.copy("model.layers.9.enorm.weight", "model.layers.8.enorm.weight");
  EXPECT_THAT(problem("mtp", head), HasSubstr("'model.layers.9.enorm.weight' is of a second module"));
  head = mtp_mimo();
  head.config["num_nextn_predict_layers"] = 3;
  EXPECT_THAT(problem("mtp", head), HasSubstr("key 'num_nextn_predict_layers' is 3"));
  head = mtp_next();
  head.config["mtp_num_hidden_layers"] = 2;
  EXPECT_THAT(problem("mtp", head), HasSubstr("key 'mtp_num_hidden_layers' is 2"));
}

TEST_F(head_loader_test, a_missing_tensor_of_a_module_has_its_name_in_the_file) {
  const auto expect_named = [&](const tiny_head& whole, const std::string& name) {
    tiny_head head = whole;
    EXPECT_EQ(head.tensors.erase(name), 1U) << name;
    EXPECT_THAT(problem("mtp", head), HasSubstr("tensor '" + name + "' is missing"));
  };
  for (const char* const part : {"input_proj", "token_layernorm", "hidden_layernorm", "final_layernorm",
                                 "self_attn.k_proj", "mlp.down_proj", "input_layernorm"})
    expect_named(mtp_mimo(), "model.mtp_layers.0." + std::string(part) + ".weight");
  for (const char* const part : {"fc", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm",
                                 "layers.0.self_attn.k_proj", "layers.0.self_attn.q_norm"})
    expect_named(mtp_next(), "mtp." + std::string(part) + ".weight");
  for (const char* const part : {"eh_proj", "enorm", "hnorm", "shared_head.norm", "self_attn.k_proj"})
    expect_named(mtp_deepseek(), "model.layers.8." + std::string(part) + ".weight");
}

TEST_F(head_loader_test, a_module_with_an_output_gate_has_norms_of_queries_and_keys) {
  for (const char* const norm : {"q_norm", "k_norm"}) {
    auto head = mtp_next();
    head.tensors.erase("mtp.layers.0.self_attn." + std::string(norm) + ".weight");
    EXPECT_THAT(problem("mtp", head), AllOf(HasSubstr(norm), HasSubstr("is missing")));
  }
  auto head = mtp_next();
  head.add("mtp.layers.0.self_attn.q_proj.weight", {32, hidden});
  EXPECT_THAT(problem("mtp", head),
              HasSubstr("self_attn.q_proj.weight' must have the shape [64][32], has [32][32]"));
  head = mtp_next();
  head.tensors.erase("mtp.layers.0.self_attn.q_proj.weight");
  head.add("mtp.layers.0.self_attn.qkv_proj.weight", {64, hidden});
  EXPECT_THAT(problem("mtp", head), HasSubstr("self_attn.q_proj.weight' is missing"));
  head = mtp_mimo();
  head.add("model.mtp_layers.0.self_attn.k_proj.bias", {16});
  EXPECT_THAT(problem("mtp", head), HasSubstr("self_attn.q_proj.bias' is missing"));
  head = mtp_mimo();
  head.add("model.mtp_layers.0.self_attn.k_norm.weight", {8});
  EXPECT_THAT(problem("mtp", head), HasSubstr("self_attn.q_norm.weight' is missing"));
}

TEST_F(head_loader_test, reads_fields_within_text_config) {
  auto head = mtp_next();
  const auto flat = load("mtp", head);
  ASSERT_TRUE(flat) << flat.error().message();
  auto fields = head.config;
  fields["rope_parameters"] = {{"rope_type", "default"},
                               {"rope_theta", 1e4},
                               {"partial_rotary_factor", 1.0},
                               {"mrope_section", {2, 1, 1}}};
  head.config = {{"model_type", "qwen3_5"}, {"text_config", fields}};
  const auto nested = load("mtp", head);
  ASSERT_TRUE(nested) << nested.error().message();
  EXPECT_EQ((*nested)->info().kv_bytes_per_token, (*flat)->info().kv_bytes_per_token);
  fields["hidden_size"] = 64;
  head.config["text_config"] = fields;
  EXPECT_THAT(problem("mtp", head),
              AllOf(HasSubstr("text_config"), HasSubstr("'hidden_size' is 64"), HasSubstr("is 32")));
  fields["hidden_size"] = hidden;
  fields["mtp_num_hidden_layers"] = 2;
  head.config["text_config"] = fields;
  EXPECT_THAT(problem("mtp", head), HasSubstr("'mtp_num_hidden_layers' is 2"));
}

TEST_F(head_loader_test, uses_the_modules_own_embedding_and_lm_head_unless_they_are_the_base_models) {
  const auto plain = load("mtp", mtp_mimo());
  const auto own = load("mtp", mtp_deepseek());
  ASSERT_TRUE(plain && own) << own.error().message();
  const std::uint64_t bytes = std::uint64_t{vocab} * hidden * sizeof(float);
  EXPECT_GE((*own)->info().weights_bytes, (*plain)->info().weights_bytes + 2 * bytes);
  auto head = mtp_deepseek(); // a whole checkpoint of an untied model
  head.copy("model.embed_tokens.weight", "model.layers.8.embed_tokens.weight");
  head.copy("lm_head.weight", "model.layers.8.shared_head.head.weight");
  const auto borrowed = load("mtp", head);
  ASSERT_TRUE(borrowed) << borrowed.error().message();
  EXPECT_EQ((*borrowed)->info().weights_bytes, (*plain)->info().weights_bytes);
  head.tensors.at("lm_head.weight").values[3] += 1;
  EXPECT_GE((*load("mtp", head))->info().weights_bytes, (*plain)->info().weights_bytes + bytes);
  head.tensors.erase("lm_head.weight"); // tied
  head.copy("model.layers.8.shared_head.head.weight", "model.embed_tokens.weight");
  EXPECT_EQ((*load("mtp", head))->info().weights_bytes, (*plain)->info().weights_bytes);
}

} // namespace
} // namespace paceline::test

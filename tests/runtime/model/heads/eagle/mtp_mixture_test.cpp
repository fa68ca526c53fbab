// Modules for multi-token prediction whose feed-forward block is a mixture of experts: every form in which
// files have the experts, the cost, and what is wrong with those that do not fit. tests/e2e/head_parity.py
// compares their drafts with a reference.
#include "runtime/model/heads/files/head_kind.hpp"
#include "runtime/model/heads/files/head_report.hpp"
#include "tests/support/head_test.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::test {
namespace {

using device::tensor_type;
using model::architecture;
using ::testing::HasSubstr;

const std::string mlp = "mtp.layers.0.mlp.";

class mtp_mixture_test : public head_test {
 protected:
  mtp_mixture_test() : head_test(architecture::qwen35moe) {}

  static constexpr std::uint32_t num_experts = 8, inner = 32, block_size = 4;
  /// Bytes of an expert's three matrices in float32.
  static constexpr std::uint64_t expert_bytes = std::uint64_t{3} * inner * hidden * sizeof(float);

  static tiny_head module() { return tiny_head::mtp_experts(hidden, vocab); }
  /// With the experts in two tensors.
  static tiny_head packed(tiny_head head) {
    head.stack(mlp + "experts.", {"gate_proj", "up_proj"}, mlp + "experts.gate_up_proj");
    head.stack(mlp + "experts.", {"down_proj"}, mlp + "experts.down_proj");
    return head;
  }

  /// The module's values in a GGUF file with nothing else of its model, which has `num_others` layers.
  static gguf_builder file_of(tiny_head head, bool fused, std::uint32_t num_others = num_layers) {
    gguf_builder file;
    const std::string arch = "qwen35moe", experts = mlp + "experts.";
    file.set_string("general.architecture", arch);
    const auto set = [&](const char* key, std::uint32_t value) { file.set_uint32(arch + "." + key, value); };
    set("block_count", num_others + 1);
    set("nextn_predict_layers", 1);
    set("context_length", 64);
    set("embedding_length", hidden);
    set("attention.head_count", 4);
    set("attention.head_count_kv", 2);
    set("attention.key_length", 8);
    set("rope.dimension_count", 2);
    set("vocab_size", vocab);
    set("expert_count", num_experts);
    set("expert_used_count", 3);
    set("expert_feed_forward_length", inner);
    set("expert_shared_feed_forward_length", 64);
    file.set_float32(arch + ".attention.layer_norm_rms_epsilon", 1e-5F);
    if (fused) {
      head.stack(experts, {"gate_proj", "up_proj"}, "ffn_gate_up_exps.weight");
    } else {
      head.stack(experts, {"gate_proj"}, "ffn_gate_exps.weight");
      head.stack(experts, {"up_proj"}, "ffn_up_exps.weight");
    }
    head.stack(experts, {"down_proj"}, "ffn_down_exps.weight");
    head.tensors.at(mlp + "shared_expert_gate.weight").shape = {hidden};
    const std::string prefix = "blk." + std::to_string(num_others) + ".";
    for (const auto& [name, tensor] : head.tensors) add(file, prefix + name_in_gguf(name), tensor);
    return file;
  }

  static void add(gguf_builder& file, const std::string& name, const tiny_head::tensor& tensor) {
    std::vector<float> values = tensor.values;
    if (name.find("norm") != std::string::npos) // which directories store less one
      for (float& value : values) value += 1;
    const auto bytes = std::as_bytes(std::span(values));
    file.add_tensor(name, tensor_type::f32, {tensor.shape.rbegin(), tensor.shape.rend()},
                    {bytes.begin(), bytes.end()});
  }

  static std::string name_in_gguf(const std::string& name) {
    for (const auto& [from, to] : {std::pair{"mtp.fc", "nextn.eh_proj"},
                                   {"mtp.pre_fc_norm_embedding", "nextn.enorm"},
                                   {"mtp.pre_fc_norm_hidden", "nextn.hnorm"},
                                   {"mtp.norm", "nextn.shared_head_norm"},
                                   {"mtp.layers.0.input_layernorm", "attn_norm"},
                                   {"mtp.layers.0.post_attention_layernorm", "post_attention_norm"},
                                   {"mtp.layers.0.self_attn.q_proj", "attn_q"},
                                   {"mtp.layers.0.self_attn.k_proj", "attn_k"},
                                   {"mtp.layers.0.self_attn.v_proj", "attn_v"},
                                   {"mtp.layers.0.self_attn.o_proj", "attn_output"},
                                   {"mtp.layers.0.self_attn.q_norm", "attn_q_norm"},
                                   {"mtp.layers.0.self_attn.k_norm", "attn_k_norm"},
                                   {"mtp.layers.0.mlp.gate", "ffn_gate_inp"},
                                   {"mtp.layers.0.mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
                                   {"mtp.layers.0.mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
                                   {"mtp.layers.0.mlp.shared_expert.up_proj", "ffn_up_shexp"},
                                   {"mtp.layers.0.mlp.shared_expert.down_proj", "ffn_down_shexp"}})
      if (name == std::string(from) + ".weight") return std::string(to) + ".weight";
    return name;
  }

  using loaded_head = expected<std::shared_ptr<const model::draft_head>>;
  loaded_head load_file(const gguf_builder& file) {
    file.write(folder_ / "module.gguf");
    return load("mtp", folder_ / "module.gguf");
  }
  loaded_head load_as(const tiny_head& head, tensor_type format) {
    head.write(folder_.path());
    const std::shared_ptr<const model::transformer> target(std::shared_ptr<void>(), &target_->get());
    return model::load_draft_head("mtp", folder_.path(), target, {kv_type::f32, {}, format},
                                  target_->device(), target_->device());
  }
  std::string file_problem(const std::function<void(gguf_builder&)>& change, bool fused = false) {
    auto file = file_of(module(), fused);
    change(file);
    const auto head = load_file(file);
    return head ? "was accepted" : head.error().message();
  }

  /// Logits of a text of 12 tokens, in passes of so many rows.
  std::vector<float> logits_of(const model::draft_head& head, std::uint32_t rows_of_pass = 12) {
    constexpr std::uint32_t num_rows = 12;
    const auto target_kv = target_->get().make_kv_storage(num_rows / block_size, block_size, head.taps());
    make_up(*target_kv->features());
    const auto kv = head.make_kv_storage(num_rows / block_size, block_size);
    paged_sequences paged(block_size, num_rows / block_size, 1);
    paged.add_sequence(num_rows);
    std::vector<float> logits;
    for (std::uint32_t begin = 0; begin < num_rows; begin += rows_of_pass) {
      auto rows = paged.chain_rows(0, begin, std::min(num_rows, begin + rows_of_pass));
      std::vector<std::uint32_t> cells, all;
      for (auto& row : rows) {
        row.token = token_id{static_cast<std::int32_t>(row.position.value * 37 % vocab)};
        cells.push_back(row.position.value);
        all.push_back(static_cast<std::uint32_t>(all.size()));
      }
      std::vector<float> part(rows.size() * head.info().vocab_size);
      target_->run([&](device::ops& ops) {
        head.forward(ops, paged.batch(rows), {target_kv->features(), cells, all}, kv.get(), {all, part});
      });
      logits.insert(logits.end(), part.begin(), part.end());
    }
    return logits;
  }
};

TEST_F(mtp_mixture_test, every_form_of_the_experts_is_the_same_module) {
  const auto each = load("mtp", module());
  ASSERT_TRUE(each) << each.error().message();
  EXPECT_EQ((*each)->info().architecture, "mtp");
  const auto logits = logits_of(**each);
  const auto in_two = load("mtp", packed(module()));
  ASSERT_TRUE(in_two) << in_two.error().message();
  EXPECT_EQ(logits_of(**in_two), logits);
  for (const bool fused : {false, true}) {
    const auto in_file = load_file(file_of(module(), fused));
    ASSERT_TRUE(in_file) << in_file.error().message();
    EXPECT_EQ(logits_of(**in_file), logits);
  }
  EXPECT_EQ(model::kind_of_head(folder_ / "module.gguf").value(), "mtp");
}

TEST_F(mtp_mixture_test, is_found_in_the_file_of_its_model_and_alone) {
  for (const architecture arch : {architecture::qwen35moe, architecture::qwen3next}) {
    set_target(arch);
    const tiny_model options{.arch = arch, .num_layers = num_layers, .mtp_module = true, .dense_layer = -1};
    auto file = make_tiny_gguf(options);
    const auto inside = load_file(file);
    ASSERT_TRUE(inside) << inside.error().message();
    const auto logits = logits_of(**inside);
    std::vector<std::string> others;
    for (const auto& tensor : file.tensors())
      if (!tensor.name.starts_with("blk.8.")) others.push_back(tensor.name);
    for (const std::string& name : others) file.remove_tensor(name);
    const auto alone = load_file(file);
    ASSERT_TRUE(alone) << alone.error().message();
    EXPECT_EQ(logits_of(**alone), logits);
  }
}

TEST_F(mtp_mixture_test, of_a_model_with_more_layers_than_the_file_has_tensors) {
  const auto head = load_file(file_of(module(), false, 60));
  ASSERT_TRUE(head) << head.error().message();
  EXPECT_EQ(logits_of(**head), logits_of(**load("mtp", module())));
}

TEST_F(mtp_mixture_test, rows_have_the_same_bits_in_every_pass) {
  for (const auto& head : {load("mtp", module()), load_as(module(), tensor_type::q8_0)}) {
    ASSERT_TRUE(head) << head.error().message();
    const auto logits = logits_of(**head);
    for (const std::uint32_t rows : {1U, 2U, 5U}) EXPECT_EQ(logits_of(**head, rows), logits) << rows;
  }
}

TEST_F(mtp_mixture_test, routing_is_that_of_the_config) {
  const auto usual = logits_of(**load("mtp", module()));
  auto head = module();
  head.config["norm_topk_prob"] = false; // Qwen3.5's class has no such option
  EXPECT_EQ(logits_of(**load("mtp", head)), usual);
  head.config["model_type"] = "qwen3_next";
  EXPECT_NE(logits_of(**load("mtp", head)), usual);
  head.config["norm_topk_prob"] = true;
  head.config["mlp_only_layers"] = {0}; // of the model's layers
  EXPECT_EQ(logits_of(**load("mtp", head)), usual);
  head.config["num_experts_per_tok"] = 2;
  EXPECT_NE(logits_of(**load("mtp", head)), usual);
}

TEST_F(mtp_mixture_test, a_step_reads_the_experts_of_a_row) {
  const auto three = (*load("mtp", module()))->info();
  auto head = module();
  head.config["num_experts_per_tok"] = 5;
  const auto five = (*load("mtp", head))->info();
  EXPECT_EQ(five.bytes_per_token - three.bytes_per_token, 2 * expert_bytes);
  EXPECT_EQ(five.weights_bytes, three.weights_bytes);
  head = tiny_head::mtp_experts(hidden, vocab, num_experts + 1);
  const auto more = (*load("mtp", head))->info();
  EXPECT_GE(more.weights_bytes - three.weights_bytes, expert_bytes);
  EXPECT_LT(more.bytes_per_token - three.bytes_per_token, expert_bytes) << "a row of the router";
}

TEST_F(mtp_mixture_test, experts_are_quantised_as_matrices_are_and_the_router_is_not) {
  const auto plain = load("mtp", module());
  const auto quantised = load_as(packed(module()), tensor_type::q8_0);
  ASSERT_TRUE(quantised) << quantised.error().message();
  EXPECT_LT((*quantised)->info().weights_bytes, (*plain)->info().weights_bytes * 2 / 5);
  const auto logits = logits_of(**plain), near = logits_of(**quantised);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    difference += std::abs(logits[i] - near[i]);
    size += std::abs(logits[i]);
  }
  EXPECT_LT(difference, 0.03 * size);
  EXPECT_GT(difference, 0);
  auto head = module();
  head.tensors.at(mlp + "gate.weight").values[5] = std::numeric_limits<float>::infinity();
  const auto loaded = load_as(head, tensor_type::q8_0); // what is quantised must be finite
  EXPECT_TRUE(loaded) << loaded.error().message();
  head.tensors.at(mlp + "experts.3.up_proj.weight").values[7] = std::numeric_limits<float>::infinity();
  const auto broken = load_as(head, tensor_type::q4_0);
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message(),
              HasSubstr("'mtp.layers.0.mlp.experts.3.up_proj.weight' has values that are not finite"));
}

TEST_F(mtp_mixture_test, refuses_experts_in_a_directory_that_do_not_fit) {
  const auto with = [&](const std::function<void(tiny_head&)>& change, bool packs = false) {
    tiny_head head = packs ? packed(module()) : module();
    change(head);
    return problem("mtp", head);
  };
  const std::string five = mlp + "experts.5.", all = mlp + "experts.gate_up_proj";
  EXPECT_THAT(with([&](auto& head) { head.tensors.erase(five + "up_proj.weight"); }),
              HasSubstr("tensor 'mtp.layers.0.mlp.experts.5.up_proj.weight' is missing"));
  EXPECT_THAT(with([&](auto& head) {
                head.add(five + "down_proj.weight", {hidden, 48});
              }),
              HasSubstr("experts.5.down_proj.weight' must have the shape [1][32][32], has [1][32][48]"));
  EXPECT_THAT(with([&](auto& head) {
                head.add(mlp + "experts.8.up_proj.weight", {inner, hidden});
              }),
              HasSubstr("experts.8.up_proj.weight' belongs to expert 8 of a layer with 8 experts"));
  EXPECT_THAT(with([&](auto& head) { head.tensors.erase(mlp + "gate.weight"); }),
              HasSubstr("tensor 'mtp.layers.0.mlp.gate.weight' is missing"));
  EXPECT_THAT(with([&](auto& head) { head.config["num_experts"] = 9; }),
              HasSubstr("'mtp.layers.0.mlp.gate.weight' must have the shape [9][32], has [8][32]"));
  EXPECT_THAT(with([&](auto& head) { head.config["num_experts"] = 0; }), HasSubstr("'num_experts' is 0"));
  EXPECT_THAT(with([&](auto& head) { head.config["num_experts_per_tok"] = 9; }),
              HasSubstr("num_used_experts must be 1 to 8, is 9"));
  EXPECT_THAT(with([&](auto& head) { head.tensors.erase(mlp + "shared_expert_gate.weight"); }),
              HasSubstr("mlp.shared_expert_gate.weight' is missing"));
  EXPECT_THAT(with([&](auto& head) { head.config["shared_expert_intermediate_size"] = 0; }),
              HasSubstr("has no meaning in a head of this kind"));
  EXPECT_THAT(with([&](auto& head) { head.config["shared_expert_intermediate_size"] = 48; }),
              HasSubstr("shared_expert.gate_proj.weight' must have the shape [48][32], has [64][32]"));
  EXPECT_THAT(with([&](auto& head) { head.config["model_type"] = "deepseek_v3"; }),
              HasSubstr("'model_type' is 'deepseek_v3'; modules with experts are supported of qwen35moe and "
                        "qwen3next"));
  EXPECT_THAT(with([&](auto& head) {
                head.add(mlp + "gate_proj.weight", {48, hidden});
              }),
              HasSubstr("'mtp.layers.0.mlp.gate_proj.weight' has no meaning"));
  EXPECT_THAT(with(
                  [&](auto& head) {
                    head.add(all, {7, 2 * inner, hidden});
                  },
                  true),
              HasSubstr("gate_up_proj' must have the shape [8][64][32], has [7][64][32]"));
  EXPECT_THAT(with(
                  [&](auto& head) {
                    head.add(all, {8, inner, hidden});
                  },
                  true),
              HasSubstr("gate_up_proj' must have the shape [8][64][32], has [8][32][32]"));
  EXPECT_THAT(with(
                  [&](auto& head) {
                    head.add(all, {1, 8, 2 * inner, hidden});
                  },
                  true),
              HasSubstr("gate_up_proj' must have 1 to 3 dimensions, has 4"));
  EXPECT_THAT(with(
                  [&](auto& head) {
                    head.add(five + "gate_proj.weight", {inner, hidden});
                  },
                  true),
              HasSubstr("gate_up_proj' occurs twice, or another one has its matrices"));
  EXPECT_THAT(with([&](auto& head) { head.tensors.erase(mlp + "experts.down_proj"); }, true),
              HasSubstr("mlp.experts.down_proj' is missing"));
}

TEST_F(mtp_mixture_test, refuses_experts_in_a_gguf_file_that_do_not_fit) {
  const std::string layer = "blk.8.";
  const auto without = [&](const char* name) {
    return file_problem([&](gguf_builder& file) { file.remove_tensor(layer + name); });
  };
  EXPECT_THAT(without("ffn_up_exps.weight"), HasSubstr("tensor 'blk.8.ffn_up_exps.weight' is missing"));
  EXPECT_THAT(without("ffn_gate_inp.weight"), HasSubstr("'blk.8.ffn_gate_inp.weight' is missing"));
  EXPECT_THAT(without("ffn_down_shexp.weight"), HasSubstr("'blk.8.ffn_down_shexp.weight' is missing"));
  const auto replaced = [&](const char* name, tensor_type type, const std::vector<std::uint64_t>& shape,
                            std::size_t num_bytes) {
    return file_problem([&](gguf_builder& file) {
      file.remove_tensor(layer + name);
      file.add_tensor(layer + name, type, shape, std::vector<std::byte>(num_bytes));
    });
  };
  EXPECT_THAT(replaced("ffn_up_exps.weight", tensor_type::f32, {32, 32, 7}, std::size_t{32} * 32 * 7 * 4),
              HasSubstr("'blk.8.ffn_up_exps.weight' must have the shape [8][32][32], has [7][32][32]"));
  EXPECT_THAT(replaced("ffn_gate_inp.weight", tensor_type::q8_0, {32, 8}, 8 * 34),
              HasSubstr("'blk.8.ffn_gate_inp.weight' must be F32, F16 or BF16"));
  EXPECT_THAT(file_problem([&](gguf_builder& file) {
                file.add_tensor(layer + "ffn_gate_up_exps.weight", tensor_type::f32, {32, 64, 8},
                                std::vector<std::byte>(std::size_t{32} * 64 * 8 * 4));
              }),
              HasSubstr("ffn_gate_up_exps.weight' occurs twice, or another one has its matrices"));
  const auto with_key = [&](const char* key, std::uint32_t value) {
    return file_problem([&](gguf_builder& file) {
      file.remove(std::string("qwen35moe.") + key).set_uint32(std::string("qwen35moe.") + key, value);
    });
  };
  EXPECT_THAT(with_key("expert_count", 9), HasSubstr("must have the shape [9][32], has [8][32]"));
  EXPECT_THAT(with_key("expert_used_count", 9), HasSubstr("expert_used_count' must be 1 to 8, is 9"));
  EXPECT_THAT(with_key("expert_group_count", 4), HasSubstr("expert_group_count' must be at most 1"));
  EXPECT_THAT(file_problem([](gguf_builder& file) { file.remove("qwen35moe.expert_count"); }),
              HasSubstr("qwen35moe.expert_count"));
}

TEST_F(mtp_mixture_test, inspect_tells_the_experts) {
  const auto expect_facts = [](const expected<model::model_report>& report) {
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->problem, "");
    EXPECT_EQ(report->head.kind, "mtp");
    std::string found;
    for (const auto& fact : report->head.facts)
      if (fact.name.find("expert") != std::string::npos ||
          fact.name.find("feed_forward") != std::string::npos)
        found += fact.name + " " + fact.value + ";";
    EXPECT_EQ(found, "experts 8;used_experts 3;expert_feed_forward_size 32;shared_feed_forward_size 64;");
  };
  for (const tiny_head& head : {module(), packed(module())}) {
    head.write(folder_.path());
    expect_facts(model::inspect_head(folder_.path()));
  }
  file_of(module(), true).write(folder_ / "module.gguf");
  expect_facts(model::inspect_head(folder_ / "module.gguf"));
  const tiny_model options{.arch = architecture::qwen35moe, .mtp_module = true, .dense_layer = -1};
  make_tiny_gguf(options).write(folder_ / "model.gguf");
  const auto report = model::inspect_model(folder_ / "model.gguf");
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_THAT(to_text(*report),
              HasSubstr("multi-token prediction: a drafter of kind mtp without a path uses it"));
}

} // namespace
} // namespace paceline::test

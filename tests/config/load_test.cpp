#include "config/load.hpp"

#include "config/option.hpp"
#include "config/scalar.hpp"
#include "tests/support/scratch_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace paceline::config {
namespace {

const std::string examples = std::string(PACELINE_SOURCE_DIR) + "/config/examples/";

TEST(load_test, every_example_loads) {
  std::size_t num = 0;
  for (const auto& file : std::filesystem::directory_iterator(examples)) {
    const auto r = load(file.path().string(), {{"PACELINE_MODEL", "model.gguf"}}, {});
    EXPECT_TRUE(r.ok()) << r.errors.front();
    EXPECT_TRUE(r.warnings.empty());
    ++num;
  }
  EXPECT_EQ(num, 4U);
}

TEST(load_test, an_example_means_what_it_says) {
  const auto r = load(examples + "daemon.yaml", {}, {});
  ASSERT_TRUE(r.ok()) << r.errors.front();
  const auto& m = r.config.engine.models.at(0);
  EXPECT_EQ(m.aliases, std::vector<std::string>{"gpt-4o-mini"});
  EXPECT_EQ(m.kv_dtype, kv_type::f16);
  EXPECT_EQ(m.drafters.at(1).path, "/var/lib/paceline/models/qwen2.5-coder-0.5b-instruct-q2_k.gguf");
  EXPECT_EQ(m.default_rule, verification_rule::coupled);
  EXPECT_EQ(r.config.server.max_body_bytes, 4ULL << 20);
  EXPECT_EQ(r.config.engine.memory_budget_bytes, 4ULL << 30);
  EXPECT_EQ(r.config.engine.overlap, overlap_mode::automatic);
  EXPECT_EQ(r.config.engine.max_gap, std::chrono::milliseconds(200));
  EXPECT_EQ(r.config.logging.format, log_format::json);
  EXPECT_TRUE(r.config.metrics.vllm_names);
}

TEST(load_test, a_module_of_the_model_itself_needs_no_path) {
  const auto r =
      load_text("version: 1\nmodels: [{path: m, drafters: [{name: own, kind: mtp}]}]", "f", {}, {});
  ASSERT_TRUE(r.ok()) << r.errors.front();
  EXPECT_EQ(r.config.engine.models.at(0).drafters.at(0).path, "");
}

/// A file, and parts of the single error that it must cause.
struct bad_file {
  const char* text; ///< after "version: 1\nmodels: [{kind: hash}]\n", unless it begins with '!'
  const char* error;
};

const bad_file bad_files[] = {
    {"server: {prot: 1}", "f:3:10: server: unknown key 'prot'; did you mean 'port'?"},
    {"serve: {port: 1}", "f:3:1: unknown key 'serve'; did you mean 'server'?"},
    {"xyzzy: 1",
     "f:3:1: unknown key 'xyzzy'; known are server, engine, scheduler, metrics, logging, shutdown, models"},
    {"server: {port: 65536}", "f:3:16: server.port: '65536' is not an integer from 0 to 65535"},
    {"server: {port: -1}", "server.port: '-1' is not an integer"},
    {"server: {port: 0x50}", "server.port: '0x50' is not an integer"},
    {"server: {port: 010}", "server.port: '010' is not an integer"},
    {"server: {port: \"80\"}", "server.port: must be an integer from 0 to 65535, not a quoted text"},
    {"server: {port: [80]}", "server.port: must be an integer from 0 to 65535, not a list"},
    {"server: {port: {a: 1}}", "not a map"},
    {"server: {port: }", "server.port: must be an integer from 0 to 65535, not nothing"},
    {"server: {host: ~}", "server.host: must be a text, not nothing"},
    {"server: 8080", "f:3:9: server: must be a map with keys among host, port"},
    {"server: [1]", "server: must be a map"},
    {"server:", "server: must be a map"},
    {"metrics: {enabled: yes}", "metrics.enabled: 'yes' is not true or false"},
    {"metrics: {enabled: on}", "'on' is not true or false"},
    {"scheduler: {max_gap: 200}",
     "scheduler.max_gap: '200' is not a duration (250ms, 30s, 5m, 2h) from 1ms to 1m"},
    {"scheduler: {max_gap: 2m}", "scheduler.max_gap: '2m' is not a duration"},
    {"engine: {memory_budget: 4GB}", "engine.memory_budget: '4GB' is not a size (100B, 64KiB, 512MiB, 2GiB)"},
    {"scheduler: {overlap: sometimes}",
     "scheduler.overlap: 'sometimes' is not one of off, groups, ahead, outcomes, auto"},
    {"server: {allowed_origins: a}", "server.allowed_origins: must be a list of texts"},
    {"server: {allowed_origins: [[a]]}", "server.allowed_origins: must be a list of texts"},
    {"remote_workers: [{host: a}]",
     "f:3:1: remote_workers: draft workers on other machines are not offered by this build"},
    {"server: {tls: {certificate: c.pem}}",
     "f:3:29: server.tls.certificate: certificate and key belong together: set both"},
    {"server: {tls: {key: k.pem}}", "f:3:21: server.tls.key: certificate and key belong together: set both"},
    {"server: {tls: {client_ca: a.pem}}",
     "f:3:27: server.tls.client_ca: needs server.tls.certificate and server.tls.key"},
    {"server: {tls: {cert: c.pem}}", "unknown key 'cert'"},
    {"server: {host: 0.0.0.0}", "f:3:16: server.host: listening beyond loopback needs server.api_keys_file"},
    {"server: {host: 127.999.0.1}", "f:3:16: server.host: '127.999.0.1' must be localhost or an IP address"},
    {"server: {host: 127.evil.com}", "server.host: '127.evil.com' must be localhost or an IP address"},
    {"server: {host: box.lan, allow_unauthenticated: true}", "'box.lan' must be localhost or an IP address"},
    {"server: {host: \"\"}", "server.host: '' must be localhost or an IP address"},
    {"engine: {threads: 2, partitions: 3}", "engine.partitions: must not exceed engine.threads (2)"},
    {"server: {host: ${NOT_SET}}", "not valid YAML"},
    {"server: {host: \"${NOT_SET}\"}", "f:3:16: the variable NOT_SET is not set"},
    {"a: &x 1", "f:3:4: anchors (&name) are not allowed"},
    {"version: 1", "f:3:1: the key 'version' is there already"},
    {"!", "f:1:1: a configuration is a map that begins with 'version: 1'"},
    {"!models: [{kind: hash}]", "version: a configuration file begins with 'version: 1'"},
    {"!version: 2\nmodels: [{kind: hash}]", "f:1:10: version: must be 1"},
    {"!version: \"1\"\nmodels: [{kind: hash}]", "version: must be 1"},
    {"!- version: 1", "a configuration is a map"},
    {"!hello", "a configuration is a map"},
    {"!version: 1", "f: models: at least one model is needed"},
    {"!version: 1\nmodels: {}", "models: must be a list, not a map"},
    {"!version: 1\nmodels: [3]", "models.0: must be a map"},
    {"!version: 1\nmodels: [{name: a}]", "models.0.path: a model of kind file needs a path"},
    {"!version: 1\nmodels: [{kind: hash, path: a}]",
     "f:2:29: models.0.path: a model of kind hash has no path"},
    {"!version: 1\nmodels: [{kind: gguf}]", "f:2:17: models.0.kind: 'gguf' is not one of file, hash"},
    {"!version: 1\nmodels: [{kind: hash}, {kind: hash}]", "models.1.name: 'default' is the first model's"},
    {"!version: 1\nmodels: [{kind: hash, name: a}, {kind: hash, name: b, aliases: [a]}]",
     "models.1.aliases: another model is called 'a'"},
    {"!version: 1\nmodels: [{kind: hash, name: \"\"}]", "models.0.name: must not be empty"},
    {"!version: 1\nmodels: [{kind: hash, kv: {block: 1}}]", "models.0.kv: unknown key 'block'"},
    {"!version: 1\nmodels: [{kind: hash, kv: {block_size: 0}}]",
     "models.0.kv.block_size: '0' is not an integer from 1"},
    {"!version: 1\nmodels: [{kind: hash, default_drafter: x}]",
     "no drafter is called 'x'; there are auto, forced, ngram, none, prediction, suffix"},
    {"!version: 1\nmodels: [{kind: hash, drafters: [{kind: ngram}]}]",
     "models.0.drafters.0.name: a drafter needs a name"},
    {"!version: 1\nmodels: [{kind: hash, drafters: [{name: ngram}]}]",
     "models.0.drafters.0.kind: a drafter needs a kind"},
    {"!version: 1\nmodels: [{kind: hash, drafters: [{name: a, kind: dspork}]}]",
     "models.0.drafters.0.kind: 'dspork' is not one of none, ngram, suffix, prediction"},
    {"!version: 1\nmodels: [{kind: hash, drafters: [{name: a, kind: model}]}]",
     "a drafter of kind model needs a path"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: model}]}]",
     "models.0.drafters.0.path: a drafter of kind model needs a path"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: ngram, path: x}]}]",
     "only drafters of kinds model and cascade, and heads, have a path"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: self, path: x}]}]",
     "only drafters of kinds model and cascade, and heads, have a path"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: cascade}]}]",
     "models.0.drafters.0.path: a drafter of kind cascade needs a path"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: ngram, tree: optimal}]}]",
     "models.0.drafters.0.tree: only drafters of kinds model and self"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: self, tree_paths: [\"0\"]}]}]",
     "models.0.drafters.0.tree_paths: needs tree static"},
    {"!version: 1\nmodels: [{path: m, device: gpu}]",
     "models.0.device: 'gpu' is none of auto, cpu, cuda:0 to cuda:255"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: model, path: x, device: \"cuda:x\"}]}]",
     "models.0.drafters.0.device: 'cuda:x' is none of auto, cpu"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: self, device: cpu}]}]",
     "models.0.drafters.0.device: only drafters of kinds model and cascade"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: self, vocabulary: retokenise}]}]",
     "models.0.drafters.0.vocabulary: only drafters of kind model"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: model, path: x, vocabulary: retokenise, "
     "tree: static}]}]",
     "models.0.drafters.0.tree: text that is tokenised anew is a chain"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: model, path: x, layers: 3}]}]",
     "models.0.drafters.0.layers: only drafters of kind self"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: model, path: x, inner: suffix}]}]",
     "models.0.drafters.0.inner: only drafters of kind cascade are drafted for"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: cascade, path: x, inner: nasd}]}]",
     "models.0.drafters.0.inner: 'nasd' is not one of ngram, suffix"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: self, layers: 3, skip_layers: [\"1\"]}]}]",
     "models.0.drafters.0.skip_layers: layers says already"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: ngram}, {name: a, kind: ngram}]}]",
     "models.0.drafters.1.name: another drafter"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: ngram, ngram_min: 5}]}]",
     "models.0.drafters.0.ngram_min: must not exceed ngram_max (4)"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: nasd, ngram_min: 1}]}]",
     "models.0.drafters.0.ngram_min: must be at least 2 for kind nasd"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: self, entropy_min_length: 0}]}]",
     "models.0.drafters.0.entropy_min_length: '0' is not an integer from 1 to 63"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: self, draft_length: 3, entropy_min_length: 4}]}]",
     "models.0.drafters.0.entropy_min_length: must not exceed draft_length (3)"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: a, kind: self, entropy_min_length: 6}]}]",
     "models.0.drafters.0.entropy_min_length: must not exceed draft_length (5)"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: none, kind: ngram}]}]",
     "'none' stands for plain decoding"},
    {"!version: 1\nmodels: [{path: m, drafters: [{name: default, kind: ngram}]}]",
     "stands for the model's default"},
};

TEST(load_test, every_mistake_gets_one_error_with_its_place_and_what_is_allowed) {
  for (const auto& [text, part] : bad_files) {
    const auto whole =
        text[0] == '!' ? std::string(text + 1) : "version: 1\nmodels: [{kind: hash}]\n" + std::string(text);
    const auto r = load_text(whole, "f", {}, {});
    ASSERT_EQ(r.errors.size(), 1U) << whole
                                   << (r.ok() ? "" : "\n" + r.errors.front() + "\n" + r.errors.back());
    EXPECT_NE(r.errors.front().find(part), std::string::npos) << whole << "\ngave " << r.errors.front();
  }
}

TEST(load_test, loopback_by_any_of_its_names_needs_no_keys) {
  for (const std::string host : {"localhost", "LOCALHOST", "127.0.0.1", "127.3.2.1", "\"::1\""}) {
    const auto r =
        load_text("version: 1\nmodels: [{kind: hash}]\nserver: {host: " + host + "}\n", "f", {}, {});
    EXPECT_TRUE(r.ok()) << r.errors.front();
  }
}

TEST(load_test, a_flood_of_models_is_refused_by_their_number) {
  const auto models_of = [](std::size_t count, const std::string& one) {
    std::string text = "version: 1\nmodels: [";
    for (std::size_t i = 0; i < count; ++i) text += one + ",";
    return load_text(text + "]\n", "f", {}, {});
  };
  const auto flood = models_of(300'000, "{}");
  ASSERT_EQ(flood.errors.size(), 1U);
  EXPECT_EQ(flood.errors.front(), "f:2:9: models: has 300000 elements; at most 128 are allowed");
  EXPECT_TRUE(flood.config.engine.models.empty());
  EXPECT_TRUE(flood.settings.empty()) << "nobody asks for the settings of what is refused";
  std::string drafters = "{path: m, drafters: [";
  for (int i = 0; i < 33; ++i) drafters += "{},";
  EXPECT_EQ(models_of(1, drafters + "]}").errors,
            std::vector<std::string>{"f:2:30: models.0.drafters: has 33 elements; at most 32 are allowed"});
}

TEST(load_test, all_errors_are_reported_at_once) {
  const auto r = load_text(
      "version: 3\nserver: {port: x, hots: a, host: \"${NO}\"}\nmodels: [{kind: h}, 3]\n", "f", {}, {});
  EXPECT_EQ(r.errors.size(), 6U);
}

TEST(load_test, rules_about_several_options_are_in_the_same_batch) {
  const auto errors_of = [](const std::string& text) {
    return load_text("version: 1\n" + text, "f", {}, {}).errors;
  };
  const auto both = errors_of("server: {host: 0.0.0.0}\nlogging: {level: loud}\n"
                              "models: [{name: a, kind: hash, path: x}, {name: b, kind: hash, prot: 1}]\n");
  ASSERT_EQ(both.size(), 4U);
  EXPECT_NE(both[0].find("logging.level"), std::string::npos) << both[0];
  EXPECT_NE(both[1].find("models.1: unknown key 'prot'"), std::string::npos) << both[1];
  EXPECT_NE(both[2].find("f:2:16: server.host: listening beyond loopback"), std::string::npos) << both[2];
  EXPECT_NE(both[3].find("models.0.path: a model of kind hash has no path"), std::string::npos) << both[3];
  EXPECT_EQ(errors_of("server: {host: 0.0.0.0, api_keys_fiel: k}\nmodels: [{kind: hash}]\n").size(), 1U)
      << "the keys are named, but for the spelling";
  EXPECT_EQ(errors_of("modles: [{kind: hash}]\n").size(), 1U);
  EXPECT_EQ(errors_of("models: [{pth: m}]\n").size(), 1U);
}

TEST(load_test, a_flood_of_errors_is_cut_short) {
  std::string text = "version: 1\n";
  for (int i = 0; i < 1000; ++i) text += "key" + std::to_string(i) + ": 1\n";
  const auto r = load_text(text, "f", {}, {});
  ASSERT_EQ(r.errors.size(), 51U);
  EXPECT_EQ(r.errors.back(), "f: and 950 more errors");
}

TEST(load_test, keys_that_stand_twice_are_cut_short_too) {
  std::string text = "version: 1\n";
  for (int i = 0; i < 1000; ++i) text += "version: 1\n";
  const auto r = load_text(text, "f", {}, {});
  ASSERT_EQ(r.errors.size(), 51U);
  EXPECT_EQ(r.errors.back(), "f: and 950 more errors");
}

TEST(load_test, a_file_full_of_unknown_keys_takes_time_in_proportion) {
  // As long as a file may be; comparing all pairs of keys would be too slow.
  std::string text = "version: 1\n";
  for (int i = 0; text.size() < max_file_bytes - 16; ++i) text += "k" + std::to_string(i) + ": 1\n";
  const auto r = load_text(text, "f", {}, {});
  EXPECT_EQ(r.errors.size(), 51U);
}

/// Replaces the value of `o` in a file that is otherwise valid.
std::string file_with(std::string_view base, const option& o, std::string_view text) {
  std::string out = "version: 1\n";
  const auto dot = o.path.find('.');
  auto body = dot == std::string_view::npos
                  ? std::string(o.path) + ": " + std::string(text)
                  : std::string(o.path.substr(0, dot)) + ": {" + std::string(o.path.substr(dot + 1)) + ": " +
                        std::string(text) + "}";
  if (base.empty()) return out + body + "\nmodels: [{kind: hash}]\n";
  return out + "models: [{" + body + (o.path == "kind" ? "" : ", kind: hash") + "}]\n";
}

TEST(load_test, every_number_is_held_to_both_its_limits) {
  std::size_t num = 0;
  const auto try_group = [&num](const option_group& group) {
    for (const auto& o : group.options) {
      const bool is_number =
          o.type == value_type::integer || o.type == value_type::size || o.type == value_type::duration;
      if (!is_number || o.path == "engine.partitions") continue;
      const auto as_value = [&o](std::uint64_t n) {
        return o.type == value_type::duration ? value(std::chrono::milliseconds(static_cast<std::int64_t>(n)))
                                              : value(n);
      };
      const auto fits = [&](std::uint64_t n) {
        return load_text(file_with(group.list, o, spell(o, as_value(n))), "f", {}, {}).ok();
      };
      EXPECT_TRUE(fits(o.lowest)) << o.path;
      EXPECT_TRUE(fits(o.highest)) << o.path;
      EXPECT_FALSE(fits(o.highest + 1)) << o.path;
      if (o.lowest > 0) {
        EXPECT_FALSE(fits(o.lowest - 1)) << o.path;
      }
      ++num;
    }
  };
  try_group(root_options());
  try_group(*root_options().elements);
  EXPECT_GT(num, 20U);
}

TEST(load_test, files_that_are_missing_too_large_or_no_files_give_one_error) {
  EXPECT_NE(load("/nonexistent/f.yaml", {}, {}).errors.at(0).find("cannot be opened: No such file"),
            std::string::npos);
  EXPECT_EQ(load(std::string(PACELINE_SOURCE_DIR), {}, {}).errors.size(), 1U);
  const test::scratch_folder folder;
  const auto path = folder / "large.yaml";
  std::ofstream(path) << "version: 1\n" << std::string(max_file_bytes, '#');
  EXPECT_NE(load(path, {}, {}).errors.at(0).find("larger than 1 MiB"), std::string::npos);
  EXPECT_NE(load_text(std::string(max_file_bytes + 1, '#'), "f", {}, {}).errors.at(0).find("larger"),
            std::string::npos);
}

} // namespace
} // namespace paceline::config

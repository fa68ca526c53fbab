#include "config/validate.hpp"
#include "config/drafters.hpp"
#include "runtime/base/joined.hpp"

#include "config/device_name.hpp"
#include "config/host_names.hpp"

#include <algorithm>
#include <set>

namespace paceline::config {

namespace {

class validator {
 public:
  validator(std::string_view file_name, const origins& from,
            const std::set<std::string, std::less<>>& wrong_sections, std::vector<std::string>& errors)
      : file_(file_name), from_(from), wrong_sections_(wrong_sections), errors_(errors) {}

  void check(const daemon_config& c) {
    if (address_to_bind(c.server.host).empty())
      fail("server.host", "'" + c.server.host + "' must be localhost or an IP address");
    else if (!is_loopback_address(c.server.host) && c.server.api_keys_file.empty() &&
             !c.server.allow_unauthenticated)
      fail("server.host",
           "listening beyond loopback needs server.api_keys_file, or server.allow_unauthenticated: true");
    check_tls(c.server.tls);
    if (c.engine.threads != 0 && c.engine.partitions > c.engine.threads)
      fail("engine.partitions", "must not exceed engine.threads (" + std::to_string(c.engine.threads) + ")");
    if (c.engine.models.empty()) fail("models", "at least one model is needed");
    std::set<std::string, std::less<>> names;
    for (std::size_t i = 0; i < c.engine.models.size(); ++i)
      check_model(c.engine.models[i], "models." + std::to_string(i) + ".", i == 0, names);
  }

 private:
  void check_tls(const tls_options& tls) {
    if (tls.certificate.empty() != tls.key.empty())
      fail(tls.key.empty() ? "server.tls.certificate" : "server.tls.key",
           "certificate and key belong together: set both");
    else if (tls.certificate.empty() && !tls.client_ca.empty())
      fail("server.tls.client_ca", "needs server.tls.certificate and server.tls.key");
  }

  void check_model(const model_options& m, const std::string& path, bool is_first,
                   std::set<std::string, std::less<>>& names) {
    if (m.name.empty()) fail(path + "name", "must not be empty");
    take_name(m.name, path + "name", is_first, names);
    for (const auto& alias : m.aliases) take_name(alias, path + "aliases", is_first, names);
    if (m.kind == "file" && m.path.empty()) fail(path + "path", "a model of kind file needs a path");
    if (m.kind == "hash" && !m.path.empty()) fail(path + "path", "a model of kind hash has no path");
    check_device(m.device, path + "device");
    std::set<std::string, std::less<>> drafters{"none", "auto"};
    for (std::size_t i = 0; i < m.drafters.size(); ++i)
      check_drafter(m.drafters[i], path + "drafters." + std::to_string(i) + ".", drafters);
    for (const auto& d : drafters_of(m)) drafters.insert(d.name); // this includes drafters that no list names
    if (!drafters.contains(m.default_drafter))
      fail(path + "default_drafter",
           "no drafter is called '" + m.default_drafter + "'; there are " + joined(drafters, ", "));
  }

  void check_drafter(const drafter_options& d, const std::string& path,
                     std::set<std::string, std::less<>>& names) {
    if (d.name.empty())
      fail(path + "name", "a drafter needs a name");
    else if (d.name == "default")
      fail(path + "name", "'default' stands for the model's default drafter");
    else if (d.name == "auto")
      fail(path + "name", "'auto' stands for the choice among the model's drafters");
    else if (d.name == "none" && d.kind != "none")
      fail(path + "name", "'none' stands for plain decoding");
    else if (!names.insert(d.name).second && d.name != "none")
      fail(path + "name", "another drafter of the model is called '" + d.name + "'");
    if (d.kind == "none" && d.name != "none")
      fail(path + "kind",
           "a drafter needs a kind, such as ngram or suffix; only the drafter 'none' has none");
    const bool has_model = d.kind == "model" || d.kind == "cascade", has_head = drafts_with_head(d.kind);
    const bool has_file = has_model || has_head;
    if (has_file && d.path.empty() && d.kind != "mtp")
      fail(path + "path", "a drafter of kind " + d.kind + " needs a path");
    if (!has_file && !d.path.empty())
      fail(path + "path", "only drafters of kinds model and cascade, and heads, have a path");
    check_device(d.device, path + "device");
    if (!has_model && d.device != "auto")
      fail(path + "device", "only drafters of kinds model and cascade have a device of their own");
    const bool has_layers = has_head && !drafts_with_inputs(d.kind);
    if (!has_layers && d.rope_theta != 0) fail(path + "rope_theta", "only heads have one");
    if (!has_layers && d.weights != head_format::stored) fail(path + "weights", "only heads choose a format");
    if (d.mtp_order != mtp_concat::by_file && d.kind != "mtp")
      fail(path + "mtp_order", "only drafters of kind mtp have one");
    const bool has_block = d.kind == "dflash" || d.kind == "dspark";
    if (!d.taps.empty() && d.kind != "eagle3" && d.kind != "dart" && !has_block)
      fail(path + "taps", "only drafters of kinds eagle3, dart, dflash and dspark choose them");
    if (d.alignment != slot_alignment::by_file && !has_block)
      fail(path + "alignment", "only drafters of kinds dflash and dspark have one");
    if (d.confidence_threshold != 0 && !has_block)
      fail(path + "confidence_threshold", "only drafters of kinds dflash and dspark have one");
    const bool has_tree = d.tree != tree_kind::chain && d.tree != tree_kind::by_kind;
    if (has_tree && d.kind != "model" && d.kind != "self" && !has_head)
      fail(path + "tree",
           "only drafters of kinds model and self, and heads, propose trees of a chosen shape");
    if (!d.tree_paths.empty() && with_kind_defaults(d).tree != tree_kind::fixed)
      fail(path + "tree_paths", "needs tree static");
    if (d.vocabulary != draft_vocabulary::same && d.kind != "model")
      fail(path + "vocabulary", "only drafters of kind model have a vocabulary of their own");
    if (d.vocabulary == draft_vocabulary::retokenise && has_tree)
      fail(path + "tree", "text that is tokenised anew is a chain");
    if (d.kind != "self" && (d.layers != 0 || !d.skip_layers.empty()))
      fail(path + "layers", "only drafters of kind self choose layers");
    if (d.layers != 0 && !d.skip_layers.empty())
      fail(path + "skip_layers", "layers says already which ones run");
    if (d.kind != "cascade" && d.inner != drafter_options{}.inner)
      fail(path + "inner", "only drafters of kind cascade are drafted for");
    // Some heads tell their number of levels when they are loaded; the factory checks those.
    const std::uint32_t most = with_kind_defaults(d).draft_length;
    if (most != 0 && d.entropy_min_length > most)
      fail(path + "entropy_min_length", "must not exceed draft_length (" + std::to_string(most) + ")");
    if (d.kind == "nasd" && d.ngram_min < 2)
      fail(path + "ngram_min", "must be at least 2 for kind nasd: a token, and the one that follows it");
    if (d.ngram_min > d.ngram_max)
      fail(path + "ngram_min", "must not exceed ngram_max (" + std::to_string(d.ngram_max) + ")");
  }

  void check_device(const std::string& name, const std::string& path) {
    if (!parse_device(name)) fail(path, "'" + name + "' is " + device_rule);
  }

  void take_name(const std::string& name, const std::string& path, bool is_first,
                 std::set<std::string, std::less<>>& names) {
    if (name == "default" && !is_first)
      fail(path, "'default' is the first model's");
    else if (!names.insert(name).second)
      fail(path, "another model is called '" + name + "'");
  }

  void fail(std::string_view path, std::string_view rule) {
    const auto section = section_of(path);
    const bool is_of_file = section == path; // the error may follow from a mistyped name of a section
    if (wrong_sections_.contains(section) || (is_of_file && wrong_sections_.contains(std::string_view())))
      return;
    const auto place = from_.find(path);
    if (place != from_.end())
      errors_.push_back(complain(place->second, file_, path, rule));
    else
      errors_.push_back(std::string(file_) + ": " + std::string(path) + ": " + std::string(rule));
  }

  std::string_view file_;
  const origins& from_;
  const std::set<std::string, std::less<>>& wrong_sections_;
  std::vector<std::string>& errors_;
};

} // namespace

void validate(const daemon_config& config, std::string_view file_name, const origins& from,
              const std::set<std::string, std::less<>>& wrong_sections, std::vector<std::string>& errors) {
  validator(file_name, from, wrong_sections, errors).check(config);
}

} // namespace paceline::config

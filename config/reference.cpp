#include "config/reference.hpp"

#include "config/scalar.hpp"

#include <algorithm>

namespace paceline::config {

namespace {

constexpr std::string_view introduction = R"(# Configuration

*Generated from config/option_table.cpp by `PACELINE_UPDATE_REFERENCE=1 config_test`.*

`paceline serve --config daemon.yaml` reads one YAML file. `paceline check-config daemon.yaml` lists all errors in it
with line, column and allowed values, and opens the models, templates, keys and certificates that it names. It exits with 78 if there are
errors, and with 69 if only files are missing. [examples](examples) has files to start from.

```yaml
version: 1
models:
  - path: /models/smollm2.gguf
server:
  port: 8080
```

**Precedence.** Defaults, then the file, then environment variables, then the command line; later values win.

| where | how |
| --- | --- |
| file | `server: {port: 8080}` |
| environment | `PACELINE_SERVER_PORT=8080`, `PACELINE_MODELS_0_KV_DTYPE=f32` |
| command line | `--set server.port=8080`, `--set models.0.kv.dtype=f32` |

In the environment and on the command line, lists are written `a,b`, and an index one past a list's last element adds an element.
`paceline serve --print-config` shows every effective value and its origin.

**The file** is plain YAML: no anchors, aliases, merge keys or tags, no duplicate keys, at most 1 MiB. `version: 1` is required. Unknown
keys are errors. Booleans are `true` and `false` only; numbers are decimal; durations have a unit (`250ms`, `30s`, `5m`, `2h`), sizes
too (`100B`, `64KiB`, `512MiB`, `2GiB`). Relative paths are relative to the working directory.

**Variables** in any value: `${NAME}` (an error if not set), `${NAME:-text}` (text if unset or empty), `${NAME:?message}` (an error
with that message if unset or empty), `$$` for a dollar sign. Secrets stay out of the file: `server.api_keys_file` names a file.

**Reload.** On SIGHUP the file is read again. If it has an error, the running configuration is kept. Options marked
*reload* take effect at once, others at the next start.
)";

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out.append("\"");
}

void write_group(std::string& out, const option_group& group, const std::string& prefix) {
  out.append("\n## ").append(group.title).append("\n");
  if (!prefix.empty())
    out.append("\nOptions of each element of `")
        .append(prefix)
        .append("`, at most ")
        .append(std::to_string(group.most))
        .append(":\n");
  out += "\n| option | default | allowed | |\n| --- | --- | --- | --- |\n";
  for (const auto& o : group.options) {
    const auto initial = group.initial(o.path);
    const auto* text = std::get_if<std::string>(&initial);
    auto shown = std::string("empty");
    if (text == nullptr || !text->empty()) shown = std::string("`").append(spell(o, initial)).append("`");
    out.append("| `").append(o.path).append("` | ").append(shown).append(" | ").append(allowed_values(o));
    out.append(" | ").append(o.doc).append(o.reloadable ? " *reload*" : "").append(" |\n");
  }
  if (group.elements == nullptr) return;
  const auto list = std::string(group.elements->list);
  write_group(out, *group.elements, prefix.empty() ? list : prefix + "[]." + list);
}

/// Writes JSON with an indentation of two blanks, one member a line.
class schema_writer {
 public:
  std::string text;

  void open(std::string_view key, char bracket = '{') {
    begin_member(key);
    text += bracket;
    first_ = true;
    ++depth_;
  }
  void close(char bracket = '}') {
    --depth_;
    text.append("\n").append(2 * depth_, ' ');
    text += bracket;
    first_ = false;
  }
  /// A member whose value is already JSON.
  void member(std::string_view key, std::string_view json) {
    begin_member(key);
    text += json;
  }
  void text_member(std::string_view key, std::string_view value) { member(key, json_text(value)); }

 private:
  void begin_member(std::string_view key) {
    if (depth_ > 0) text.append(first_ ? "\n" : ",\n").append(2 * depth_, ' ');
    if (!key.empty()) text.append("\"").append(key).append("\": ");
    first_ = false;
  }

  std::size_t depth_ = 0;
  bool first_ = true;
};

std::string quoted_list(const std::vector<std::string_view>& words) {
  std::string out = "[";
  for (const auto word : words) out.append(out.size() > 1 ? ", " : "").append(json_text(word));
  return out + "]";
}

/// The JSON type of the values that the file may contain, without variables.
std::string type_schema(const option& o) {
  const auto limits =
      ", \"minimum\": " + std::to_string(o.lowest) + ", \"maximum\": " + std::to_string(o.highest) + "}";
  switch (o.type) {
  case value_type::boolean:
    return R"({"type": "boolean"})";
  case value_type::integer:
    return R"({"type": "integer")" + limits;
  case value_type::number:
    return R"({"type": "number")" + limits;
  case value_type::text:
    return R"({"type": ["string", "number", "boolean"]})";
  case value_type::text_list:
    return R"({"type": "array", "items": {"type": ["string", "number", "boolean"]}})";
  case value_type::choice:
    return R"({"enum": )" + quoted_list(o.choices) + "}";
  case value_type::duration:
    return R"({"type": ["string", "integer"], "pattern": "^(0|[1-9][0-9]*(ms|s|m|h))$", "maximum": 0, "minimum": 0})";
  case value_type::size:
    return R"({"type": ["string", "integer"], "pattern": "^(0|[1-9][0-9]*(B|KiB|MiB|GiB|TiB))$", "maximum": 0, "minimum": 0})";
  }
  return "{}";
}

std::string json_of(const option& o, const value& v) {
  switch (o.type) {
  case value_type::boolean:
  case value_type::integer:
  case value_type::number:
  case value_type::text_list:
    return spell(o, v);
  default:
    return json_text(spell(o, v));
  }
}

void write_option(schema_writer& w, std::string_view name, const option& o, const value& initial) {
  w.open(name);
  w.text_member("description", o.doc);
  w.member("default", json_of(o, initial));
  // A text that contains a variable is still a text.
  const bool is_free_text = o.type == value_type::text || o.type == value_type::text_list;
  std::string alternatives = "[";
  alternatives.append(type_schema(o)).append(is_free_text ? "]" : R"(, {"$ref": "#/$defs/variable"}])");
  w.member("anyOf", alternatives);
  w.close();
}

void write_object(schema_writer& w, const option_group& group, bool is_root);

/// Members of `section` of a group.
void write_properties(schema_writer& w, const option_group& group, const std::string& section, bool is_root) {
  w.text_member("type", "object");
  w.member("additionalProperties", "false");
  w.open("properties");
  if (is_root) w.member("version", R"({"const": 1})");
  for (const auto& name : group.names_in(section)) {
    const auto path = section.empty() ? name : section + "." + name;
    if (const auto* o = group.find(path)) {
      write_option(w, name, *o, group.initial(path));
    } else if (group.is_section(path)) {
      w.open(name);
      write_properties(w, group, path, false);
      w.close();
    } else {
      w.open(name);
      w.text_member("type", "array");
      w.member("maxItems", std::to_string(group.elements->most));
      w.open("items");
      write_object(w, *group.elements, false);
      w.close();
      w.close();
    }
  }
  w.close();
}

void write_object(schema_writer& w, const option_group& group, bool is_root) {
  write_properties(w, group, {}, is_root);
  if (is_root) w.member("required", R"(["version"])");
}

} // namespace

std::string readme() {
  auto out = std::string(introduction);
  write_group(out, root_options(), {});
  return out;
}

std::string json_schema() {
  schema_writer w;
  w.open({});
  w.text_member("$schema", "https://json-schema.org/draft/2020-12/schema");
  w.text_member("title", "Paceline configuration");
  write_object(w, root_options(), true);
  w.open("$defs");
  w.member("variable", R"({"type": "string", "pattern": "\\$\\{"})");
  w.close();
  w.close();
  return w.text + "\n";
}

} // namespace paceline::config

#include "server/openapi/document.hpp"

#include "protocol/wire/fields/request_schema.hpp"
#include "protocol/wire/json_view.hpp"
#include "protocol/wire/json_writer.hpp"
#include "server/http/beast_codec.hpp"
#include "server/http/router.hpp"
#include "server/openapi/operations.hpp"
#include "server/openapi/reply_schemas.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace paceline::server {

namespace {

using wire::json_writer;

constexpr std::string_view description =
    "Inference with speculative decoding, compatible with OpenAI's interface and, under /v1/messages, Anthropic's; described in docs/protocol.md. Unknown fields of requests are "
    "accepted and listed in the header x-paceline-ignored-fields; null counts as absent. Lengths of texts are "
    "counted in bytes of UTF-8. Numbers are not converted with loss: 1.0 is no integer. A path that has no such "
    "method gives 405, requests that are malformed as HTTP 400, 414, 417, 431 or 505.";

struct named_request {
  std::string_view name;
  wire::request_kinds kind;
};
constexpr named_request requests[] = {
    {"completion_request", wire::in::completions}, {"chat_request", wire::in::chat},
    {"message_request", wire::in::messages},       {"message_count_request", wire::in::count_tokens},
    {"response_request", wire::in::responses},     {"tokenize_request", wire::in::tokenize},
    {"detokenize_request", wire::in::detokenize}};

std::string_view name_of_request(wire::request_kinds kind) {
  return std::ranges::find(requests, kind, &named_request::kind)->name;
}

void write_reference(json_writer& out, std::string_view name) {
  out.begin_object().field("$ref", std::string("#/components/schemas/").append(name)).end_object();
}

/// Replaces each @name by a reference.
std::string with_references(std::string_view text) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz_";
  std::string out;
  while (!text.empty()) {
    const auto at = std::min(text.find('@'), text.size());
    out += text.substr(0, at);
    if (at == text.size()) break;
    const auto end = std::min(text.find_first_not_of(letters, at + 1), text.size());
    json_writer reference;
    write_reference(reference, text.substr(at + 1, end - at - 1));
    out += reference.take();
    text.remove_prefix(end);
  }
  return out;
}

void write_components(json_writer& out) {
  out.key("components").begin_object().key("securitySchemes").begin_object().key("bearer");
  out.begin_object().field("type", "http").field("scheme", "bearer");
  out.field("description", "A key of server.api_keys_file; without such a file no key is needed.")
      .end_object();
  out.key("x_api_key")
      .begin_object()
      .field("type", "apiKey")
      .field("in", "header")
      .field("name", "x-api-key");
  out.field("description", "The same key, as Anthropic's clients send it.").end_object();
  out.end_object().key("schemas").begin_object();
  wire::write_token_id_schema(out.key("token_id"));
  for (const auto& request : requests) wire::write_request_schema(out.key(request.name), request.kind);
  for (const auto schemas : {reply_schemas, response_schemas, message_schemas}) {
    const auto replies = with_references(schemas);
    for (const auto reply : wire::json_view(replies).members())
      out.key(reply.name()).raw(wire::compact(reply.value));
  }
  out.end_object().end_object();
}

/// "/v1/models/*" as "/v1/models/{model}"
std::string template_of(const endpoint_path& path) {
  auto out = std::string(path.path);
  if (const auto star = out.find('*'); star != std::string::npos)
    out.replace(star, 1, "{" + std::string(variable_of(path.target)) + "}");
  return out;
}

/// The unique id of an operation. The endpoint's first path that is not below /models/ has the endpoint's id.
/// Ids of other paths contain the path.
std::string id_of(const endpoint_path& path) {
  const auto id = std::string(operation_of(path.target).id);
  const auto is_main = [&](const endpoint_path& other) {
    return other.target == path.target && !other.path.starts_with("/models/");
  };
  const auto main = std::ranges::find_if(all_paths(), is_main);
  if (main->path == path.path) return id;
  auto suffix = template_of(path);
  std::ranges::replace_if(
      suffix, [](char c) { return c == '/' || c == '{' || c == '}'; }, '_');
  suffix.erase(std::unique(suffix.begin(), suffix.end(), [](char a, char b) { return a == '_' && b == '_'; }),
               suffix.end());
  return id + suffix;
}

void write_content(json_writer& out, std::string_view media, std::string_view schema) {
  out.key(media).begin_object().key("schema");
  if (schema.empty())
    out.begin_object().field("type", "string").end_object();
  else
    write_reference(out, schema);
  out.end_object();
}

void write_success(json_writer& out, const operation& what) {
  out.key("200").begin_object().field("description", what.summary);
  if (what.body != 0) {
    out.key("headers").begin_object().key("x-paceline-ignored-fields").begin_object();
    out.field("description", "Unknown fields of the request, the first 32.");
    out.key("schema").begin_object().field("type", "string").end_object().end_object().end_object();
  }
  out.key("content").begin_object();
  if (!what.media.empty()) write_content(out, what.media, what.reply);
  if (!what.events.empty()) {
    // The schema describes one event. OpenAPI 3.2 has itemSchema for this.
    out.key("text/event-stream").begin_object().key("schema").begin_object().field("type", "object");
    out.field("description", std::string("Each event's data is a ")
                                 .append(what.events)
                                 .append(what.media.empty()      ? "."
                                         : what.error == "error" ? ", an error, or [DONE]."
                                                                 : " or a message_error."));
    out.key("required").raw(R"(["data"])").key("properties").begin_object();
    out.key("event").begin_object().field("type", "string").end_object();
    out.key("data").begin_object().field("type", "string").field("contentMediaType", "application/json");
    out.key("contentSchema").begin_object().key("anyOf").begin_array();
    write_reference(out, what.events);
    write_reference(out, what.error);
    out.end_array().end_object().end_object().end_object().end_object().end_object();
  }
  out.end_object().end_object();
}

void write_replies(json_writer& out, const endpoint_path& path) {
  const auto& what = operation_of(path.target);
  out.key("responses").begin_object();
  if (path.target == endpoint::response_socket)
    out.key("101").begin_object().field("description", "The connection is a WebSocket.").end_object();
  else
    write_success(out, what);
  for (const auto status : what.failures) {
    out.key(std::to_string(status)).begin_object().field("description", reason_phrase(status));
    out.key("content").begin_object();
    write_content(out, "application/json", what.error);
    out.end_object().end_object();
  }
  out.end_object();
}

void write_parameters(json_writer& out, const endpoint_path& path) {
  const auto& what = operation_of(path.target);
  const bool has_variable = path.path.find('*') != std::string_view::npos;
  if (!has_variable && what.parameters.empty()) return;
  out.key("parameters").begin_array();
  if (has_variable) {
    out.begin_object().field("name", variable_of(path.target)).field("in", "path").field("required", true);
    out.key("schema").begin_object().field("type", "string").field("minLength", 1).end_object().end_object();
  }
  if (!what.parameters.empty()) out.raw(what.parameters);
  out.end_array();
}

void write_operation(json_writer& out, const endpoint_path& path) {
  const auto& what = operation_of(path.target);
  out.begin_object().field("operationId", id_of(path)).field("summary", what.summary);
  if (!what.description.empty()) out.field("description", what.description);
  write_parameters(out, path);
  if (what.body != 0) {
    out.key("requestBody").begin_object().field("required", true).key("content").begin_object();
    out.key("application/json").begin_object().key("schema");
    write_reference(out, name_of_request(what.body));
    out.key("example").raw(what.example).end_object().end_object().end_object();
  }
  write_replies(out, path);
  if (is_open(path.target, false)) out.key("security").begin_array().end_array();
  out.end_object();
}

/// The name of an operation in the object of its path.
std::string key_of(const endpoint_path& path) {
  auto key = std::string(path.method);
  std::ranges::transform(key, key.begin(),
                         [](char c) { return static_cast<char>(c | 0x20); }); // letters only
  return key;
}

void write_paths(json_writer& out) {
  out.key("paths").begin_object();
  std::set<std::string_view> written;
  for (const auto& path : all_paths()) {
    if (!written.insert(path.path).second) continue;
    out.key(template_of(path)).begin_object();
    for (const auto& same : all_paths())
      if (same.path == path.path) write_operation(out.key(key_of(same)), same);
    out.end_object();
  }
  out.end_object();
}

std::string write_document() {
  json_writer out;
  out.begin_object().field("openapi", "3.1.0").key("info").begin_object();
  out.field("title", "Paceline").field("version", PACELINE_VERSION).field("description", description);
  out.key("license").begin_object().field("name", "Apache-2.0").field("identifier", "Apache-2.0");
  out.end_object().end_object();
  out.key("servers").begin_array().begin_object().field("url", "/").end_object().end_array();
  out.key("security").raw(R"([{},{"bearer":[]},{"x_api_key":[]}])");
  write_paths(out);
  write_components(out);
  return out.end_object().take();
}

} // namespace

std::shared_ptr<const std::string> openapi_document() {
  static const auto document = std::make_shared<const std::string>(write_document());
  return document;
}

} // namespace paceline::server

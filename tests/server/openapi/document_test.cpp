#include "server/openapi/document.hpp"

#include "server/http/router.hpp"
#include "server/openapi/operations.hpp"

#include <boost/json/parse.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace paceline::server {
namespace {

namespace json = boost::json;

json::object document() { return json::parse(*openapi_document()).as_object(); }

/// Calls `check` with each "$ref" inside.
template <class Check>
void for_each_reference(const json::value& value, const Check& check) {
  if (const auto* list = value.if_array())
    for (const auto& element : *list) for_each_reference(element, check);
  if (const auto* object = value.if_object())
    for (const auto& [name, member] : *object)
      name == "$ref" ? check(std::string(member.as_string())) : for_each_reference(member, check);
}

TEST(openapi_document, has_every_route_of_the_router_under_an_id_of_its_own) {
  const auto all = document();
  const auto& paths = all.at("paths").as_object();
  std::set<std::string> ids;
  for (const auto& route : all_paths()) {
    auto path = std::string(route.path);
    if (const auto star = path.find('*'); star != std::string::npos)
      path.replace(star, 1, "{" + std::string(variable_of(route.target)) + "}");
    ASSERT_TRUE(paths.contains(path)) << path;
    const auto method = route.method == "GET" ? "get" : route.method == "POST" ? "post" : "delete";
    const auto& operation = paths.at(path).at(method).as_object();
    EXPECT_TRUE(ids.insert(std::string(operation.at("operationId").as_string())).second) << path;
    EXPECT_EQ(operation.contains("requestBody"), takes_body(route.target)) << path;
    EXPECT_EQ(operation.contains("security"), is_open(route.target, false)) << path;
    EXPECT_EQ(operation_of(route.target).body != 0, takes_body(route.target)) << path;
  }
  EXPECT_TRUE(ids.count("create_chat_completion") &&
              ids.count("create_chat_completion_models_model_v1_chat_completions"));
}

TEST(openapi_document, refers_only_to_schemas_that_it_has_and_has_none_in_vain) {
  const auto all = document();
  std::set<std::string> named;
  for_each_reference(all, [&](const std::string& reference) { named.insert(reference); });
  std::set<std::string> there;
  for (const auto& [name, schema] : all.at("components").at("schemas").as_object())
    there.insert("#/components/schemas/" + std::string(name));
  EXPECT_EQ(named, there);
}

TEST(openapi_document, is_made_once) { EXPECT_EQ(openapi_document().get(), openapi_document().get()); }

} // namespace
} // namespace paceline::server

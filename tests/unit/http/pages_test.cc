#include "http/assets.h"

#include <gtest/gtest.h>

#include <set>

#include "fake_management.h"
#include "tarrymq/http/management_server.h"
#include "test_client.h"

namespace tarry::http_test {
namespace {

class Pages : public ::testing::Test {
 protected:
  void SetUp() override {
    auto started = ManagementServer::start({{"127.0.0.1"}, 0}, broker);
    ASSERT_TRUE(started) << started.error();
    server = std::move(*started);
    client = std::make_unique<TestClient>(server->port());
  }
  /// As somebody who is not logged in.
  Reply get(std::string_view path) { return client->call("GET", path, "", ""); }
  static std::string place() { return "/assets/" + std::string(http::page_assets_version()) + "/"; }

  FakeManagement broker;
  std::unique_ptr<ManagementServer> server;
  std::unique_ptr<TestClient> client;
};

/// Addresses in `text`, each between `before` and a quote.
std::set<std::string> addresses(std::string_view text, std::string_view before) {
  std::set<std::string> found;
  for (size_t at = text.find(before); at != std::string_view::npos; at = text.find(before, at)) {
    at += before.size();
    found.emplace(text.substr(at, text.find_first_of("\"'", at) - at));
  }
  return found;
}

TEST_F(Pages, TheDocumentIsServedWithoutALogIn) {
  const Reply page = get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_EQ(client->call("HEAD", "/", "", "").status, 200);
}

TEST_F(Pages, TheirPolicyAllowsNothingInlineAndNothingFromElsewhere) {
  for (const std::string& path : {std::string("/"), place() + "js/main.js"}) {
    const Reply reply = get(path);
    const std::string policy = reply.headers.at("content-security-policy");
    for (const char* part :
         {"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
          "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"}) {
      EXPECT_NE(policy.find(part), std::string::npos) << part;
    }
    EXPECT_EQ(policy.find("unsafe"), std::string::npos);
    EXPECT_EQ(policy.find("sha256"), std::string::npos);
    EXPECT_EQ(reply.headers.at("x-content-type-options"), "nosniff");
    EXPECT_EQ(reply.headers.at("x-frame-options"), "DENY");
    EXPECT_EQ(reply.headers.at("referrer-policy"), "no-referrer");
  }
}

TEST_F(Pages, WhatTheDocumentNamesIsThere) {
  const Reply page = get("/");
  EXPECT_EQ(page.body.find("assets/dev/"), std::string::npos)
      << "an address of the tree, not of this program";
  EXPECT_EQ(page.body.find("http:"), std::string::npos);
  EXPECT_EQ(page.body.find("https:"), std::string::npos);
  EXPECT_EQ(page.body.find("<style"), std::string::npos);
  EXPECT_EQ(page.body.find("style="), std::string::npos);
  std::set<std::string> named = addresses(page.body, "href=\"");
  named.merge(addresses(page.body, "src=\""));
  EXPECT_GE(named.size(), 5u);
  for (const std::string& address : named) {
    const Reply asset = get("/" + address);
    EXPECT_EQ(asset.status, 200) << address;
    EXPECT_FALSE(asset.body.empty()) << address;
  }
}

TEST_F(Pages, EveryModuleThatIsImportedIsThere) {
  size_t imports = 0;
  for (const auto& asset : http::page_assets()) {
    if (!asset.path.ends_with(".js") && !asset.path.ends_with(".mjs")) continue;
    const std::string folder(asset.path.substr(0, asset.path.find('/')));
    for (const char* word : {"from '", "from\""}) {
      for (std::string to : addresses(asset.text(), word)) {
        ASSERT_TRUE(to.starts_with("./") || to.starts_with("../"))
            << asset.path << " imports " << to;
        to = to.starts_with("./") ? folder + to.substr(1) : to.substr(3);
        const Reply reply = get(place() + to);
        EXPECT_EQ(reply.status, 200) << asset.path << " imports " << to;
        EXPECT_EQ(reply.headers.at("content-type"), "text/javascript; charset=utf-8");
        ++imports;
      }
    }
  }
  EXPECT_GT(imports, 50u);
}

TEST_F(Pages, FilesAreTheBytesOfTheTree) {
  ASSERT_GT(http::page_assets().size(), 30u);
  for (const auto& asset : http::page_assets()) {
    if (asset.path == "index.html") continue;
    EXPECT_EQ(get(place() + std::string(asset.path)).body, asset.text()) << asset.path;
  }
}

TEST_F(Pages, AFileIsKeptByItsVersionAndAnotherVersionIsNot) {
  EXPECT_NE(get(place() + "js/main.js").headers.at("cache-control").find("immutable"),
            std::string::npos);
  const Reply old = get("/assets/0123456789abcdef/js/main.js");
  EXPECT_EQ(old.status, 200);
  EXPECT_EQ(old.headers.at("cache-control"), "no-store");
  EXPECT_EQ(get("/").headers.at("cache-control"), "no-cache");
}

TEST_F(Pages, WhatIsNoFileOfThemIs404) {
  for (const char* path :
       {"js/none.js", "js/..", "..%2Fjs/main.js", "js/main.js%00", "vendor/README.md"}) {
    EXPECT_EQ(get(place() + path).status, 404) << path;
  }
  EXPECT_EQ(get("/assets").status, 404);
  EXPECT_EQ(get("/index.html").status, 404);
  EXPECT_EQ(client->call("POST", "/", "{}").status, 405);
}

TEST_F(Pages, AScriptOfThePagesIsRefusedWithoutTheChallengeThatOpensABrowsersDialog) {
  const auto challenged = [&](std::string_view credentials, std::string_view more) {
    const Reply reply = client->call("GET", "/api/whoami", "", credentials, more);
    EXPECT_EQ(reply.status, 401);
    return reply.headers.contains("www-authenticate");
  };
  for (const std::string_view credentials : {"", "Z3Vlc3Q6d3Jvbmc="}) {
    EXPECT_FALSE(challenged(credentials, "Sec-Fetch-Site: same-origin\r\n"));
    EXPECT_TRUE(challenged(credentials, "Sec-Fetch-Site: none\r\n"));
    EXPECT_TRUE(challenged(credentials, ""));
  }
}

}  // namespace
}  // namespace tarry::http_test

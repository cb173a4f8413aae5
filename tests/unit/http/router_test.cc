#include "http/router.h"

#include <gtest/gtest.h>

namespace tarry::http {
namespace {

Router sample() {
  Router router;
  const auto nothing = [](std::shared_ptr<Request>, Responder) {};
  router.add(Method::get, "/api/queues", Access::management, nothing);
  router.add(Method::get, "/api/queues/{vhost}", Access::management, nothing);
  router.add(Method::get, "/api/queues/detailed", Access::monitoring, nothing);
  router.add(Method::get, "/api/queues/{vhost}/{name}", Access::management, nothing);
  router.add(Method::del, "/api/queues/{vhost}/{name}", Access::management, nothing);
  return router;
}

TEST(Router, CapturesComeInOrder) {
  const auto router = sample();
  const auto match = router.match(Method::del, {"api", "queues", "/", "a/b"});
  ASSERT_NE(match.route, nullptr);
  EXPECT_EQ(match.captures, (std::vector<std::string>{"/", "a/b"}));
}

TEST(Router, LiteralsWinOverNames) {
  const auto router = sample();
  const auto match = router.match(Method::get, {"api", "queues", "detailed"});
  ASSERT_NE(match.route, nullptr);
  EXPECT_EQ(match.route->access, Access::monitoring);
}

TEST(Router, UnknownPathsHaveNoMethods) {
  const auto match = sample().match(Method::get, {"api", "nothing"});
  EXPECT_EQ(match.route, nullptr);
  EXPECT_EQ(match.allow, "");
}

TEST(Router, AWrongMethodTellsTheRightOnes) {
  const auto match = sample().match(Method::put, {"api", "queues", "/", "q"});
  EXPECT_EQ(match.route, nullptr);
  EXPECT_EQ(match.allow, "GET, HEAD, DELETE");
}

}  // namespace
}  // namespace tarry::http

#include "session/route_cache.h"

#include <gtest/gtest.h>

namespace tarry {
namespace {

ByteSpan route(std::string_view text) { return as_bytes(text); }

TEST(RouteCacheTest, UsesAreAddedToTheExchangesFiguresOnceATurn) {
  auto figures = std::make_shared<ExchangeFigures>();
  RouteCache cache;
  const RouteTargets two(2);
  cache.put(route("x"), 1, two, figures);
  ASSERT_NE(cache.find(route("x"), 1), nullptr);
  ASSERT_NE(cache.find(route("x"), 1), nullptr);
  cache.count_again(4);
  EXPECT_EQ(figures->in, 0u);
  cache.flush_counts();
  EXPECT_EQ(figures->in, 7u);  // the put was a publish, too
  EXPECT_EQ(figures->out, 14u);
  cache.flush_counts();
  EXPECT_EQ(figures->in, 7u);
}

TEST(RouteCacheTest, WhatWasCountedIsNotLostWhenRoutesAreForgotten) {
  auto figures = std::make_shared<ExchangeFigures>();
  {
    RouteCache cache;
    cache.put(route("x"), 1, RouteTargets(1), figures);
    EXPECT_EQ(cache.find(route("x"), 2), nullptr);  // another version: all is forgotten
    EXPECT_EQ(figures->in, 1u);
    cache.put(route("x"), 2, RouteTargets(1), figures);
  }
  EXPECT_EQ(figures->in, 2u);
}

TEST(RouteCacheTest, ARouteThatTakesAnothersPlaceLeavesItsCountBehind) {
  auto figures = std::make_shared<ExchangeFigures>(), other = std::make_shared<ExchangeFigures>();
  RouteCache cache;
  cache.put(route("x"), 1, RouteTargets(1), figures);
  cache.put(route("x"), 1, RouteTargets(3), other);
  cache.flush_counts();
  EXPECT_EQ(figures->in, 1u);
  EXPECT_EQ(other->out, 3u);
}

}  // namespace
}  // namespace tarry

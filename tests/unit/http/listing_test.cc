#include "http/listing.h"

#include <gtest/gtest.h>

#include <optional>

#include "held_sink.h"

namespace tarry::http {
namespace {

Request with_query(QueryPairs query) {
  Request request;
  request.query = std::move(query);
  return request;
}

Json answer(const QueryPairs& query, const std::vector<Json>& objects) {
  return Json::parse(list_response(with_query(query), objects).body);
}

std::vector<Json> numbered(size_t n) {
  std::vector<Json> out;
  for (size_t i = 0; i < n; ++i) {
    out.push_back(Json{
        {"name", "Q" + std::to_string(i)}, {"n", i % 7}, {"stats", {{"rate", n - i}, {"x", 1}}}});
  }
  return out;
}

TEST(Listing, WithoutAPageItIsABareArray) {
  EXPECT_EQ(answer({}, numbered(3)).size(), 3u);
  EXPECT_EQ(answer({}, {}), Json::array());
}

TEST(Listing, APageHasTheSevenFields) {
  const Json page = answer({{"page", "3"}, {"page_size", "100"}}, numbered(250));
  EXPECT_EQ(page["items"].size(), 50u);
  EXPECT_EQ(page["item_count"], 50);
  EXPECT_EQ(page["filtered_count"], 250);
  EXPECT_EQ(page["total_count"], 250);
  EXPECT_EQ(page["page"], 3);
  EXPECT_EQ(page["page_count"], 3);
  EXPECT_EQ(page["page_size"], 100);
  EXPECT_EQ(page["items"][0]["name"], "Q200");
}

TEST(Listing, FirstPageOfNothingIsAPage) {
  const Json page = answer({{"page", "1"}}, {});
  EXPECT_EQ(page["items"], Json::array());
  EXPECT_EQ(page["page_count"], 1);
}

TEST(Listing, PagesOutOfRangeAre400) {
  for (const char* page : {"4", "0", "-1", "x", "1x", "99999999999999999999"}) {
    EXPECT_EQ(list_response(with_query({{"page", page}}), numbered(250)).status, 400) << page;
  }
  EXPECT_EQ(list_response(with_query({{"page", "1"}, {"page_size", "10001"}}), numbered(3)).status,
            400);
}

TEST(Listing, NameFiltersByPartWhateverTheCase) {
  const Json page = answer({{"page", "1"}, {"name", "q1"}}, numbered(20));
  EXPECT_EQ(page["filtered_count"], 11);  // 1, 10 to 19
  EXPECT_EQ(page["total_count"], 20);
}

TEST(Listing, NameAsARegularExpression) {
  EXPECT_EQ(answer({{"name", "^q1$"}, {"use_regex", "true"}}, numbered(20)).size(), 1u);
  EXPECT_EQ(list_response(with_query({{"name", "("}, {"use_regex", "true"}}), numbered(2)).status,
            400);
}

TEST(Listing, SortsByADottedPathAndKeepsOrderOfEquals) {
  const Json by_rate = answer({{"sort", "stats.rate"}}, numbered(5));
  EXPECT_EQ(by_rate[0]["name"], "Q4");
  const Json reversed = answer({{"sort", "n"}, {"sort_reverse", "true"}}, numbered(14));
  EXPECT_EQ(reversed[0]["name"], "Q6");
  EXPECT_EQ(reversed[1]["name"], "Q13");
}

TEST(Listing, ThingsWithoutTheSortKeyComeFirst) {
  const Json out = answer({{"sort", "a"}}, {Json{{"name", "x"}, {"a", 1}}, Json{{"name", "y"}}});
  EXPECT_EQ(out[0]["name"], "y");
}

TEST(Listing, ColumnsCutAtAnyDepth) {
  const Json out = answer({{"columns", "name,stats.rate,nothing.here"}}, numbered(1));
  EXPECT_EQ(out[0], (Json{{"name", "Q0"}, {"stats", {{"rate", 1}}}}));
}

TEST(Listing, WhatIsLongLeavesTheThreadToOthersInBetween) {
  std::vector<std::function<void()>> later;
  std::optional<Response> answer;
  auto objects = std::make_shared<std::vector<Json>>(numbered(1'000));
  size_t made = 0;
  Listing listing;
  listing.count = objects->size();
  listing.name = [objects](size_t i) -> std::string_view {
    return (*objects)[i]["name"].get_ref<const std::string&>();
  };
  listing.render = [objects, &made](size_t i, const Fields&) {
    ++made;
    return (*objects)[i];
  };
  send_list(std::make_shared<const Request>(),
            Responder(std::make_shared<http_test::HeldSink>(later, answer)), listing);
  size_t slices = 1;
  while (!answer) {
    ASSERT_EQ(later.size(), 1u) << "one slice at a time";
    const size_t before = made;
    auto next = std::move(later.back());
    later.clear();
    next();
    EXPECT_LE(made - before, 100u) << "a slice is short";
    ++slices;
  }
  EXPECT_GE(slices, 10u);
  EXPECT_EQ(Json::parse(answer->body), Json(*objects));
}

TEST(Listing, OnlyWantedFieldsAreMade) {
  const Fields fields({"a.b"});
  ObjectWriter out(fields);
  bool made = false;
  out.lazy("c", [&] { return made = true; });
  out.put("a", 1);
  EXPECT_EQ(out.take(), (Json{{"a", 1}}));
  EXPECT_FALSE(made);
}

}  // namespace
}  // namespace tarry::http

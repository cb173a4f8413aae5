#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tarrymq/routing/exchange.h"

namespace tarry::test {

inline std::unique_ptr<Exchange> make_exchange(std::string_view type, std::string name = "x",
                                               FieldTable arguments = {}) {
  ExchangeSpec spec;
  spec.name = std::move(name);
  spec.type = exchange_type_of(type).value();
  spec.arguments = std::move(arguments);
  auto made = Exchange::create(std::move(spec));
  EXPECT_TRUE(made);
  return std::move(*made);
}

inline Destination queue(uint64_t id) {
  return Destination::to_queue(QueueId(id), "q" + std::to_string(id));
}

/// The ids of the queues that a message goes to.
inline std::vector<uint64_t> matched(const Exchange& exchange, std::string_view key,
                                     ByteSpan headers = {}) {
  RouteMatches out;
  exchange.match(key, headers, out);
  std::vector<uint64_t> ids;
  for (const QueueId id : out.queues) ids.push_back(id.value);
  return ids;
}

inline std::vector<std::string> words_of(std::string_view key) {
  std::vector<std::string> words;
  if (key.empty()) return words;
  for (size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.')) {
    words.emplace_back(key.substr(0, dot));
    key.remove_prefix(dot + 1);
  }
  words.emplace_back(key);
  return words;
}

/// The rule as it is said, tried one way after the other.
inline bool naive_topic_match(std::string_view pattern, std::string_view key) {
  const auto p = words_of(pattern);
  const auto k = words_of(key);
  auto from = [&](auto&& self, size_t i, size_t j) -> bool {
    if (i == p.size()) return j == k.size();
    if (p[i] == "#") {
      for (size_t n = j; n <= k.size(); ++n) {
        if (self(self, i + 1, n)) return true;
      }
      return false;
    }
    return j < k.size() && (p[i] == "*" || p[i] == k[j]) && self(self, i + 1, j + 1);
  };
  return from(from, 0, 0);
}

}  // namespace tarry::test

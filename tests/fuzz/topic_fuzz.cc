#include <string>
#include <vector>

#include "fuzz/fuzz_support.h"
#include "tarrymq/routing/exchange.h"

namespace {

using namespace tarry;

std::vector<std::string_view> words_of(std::string_view key) {
  std::vector<std::string_view> words;
  if (key.empty()) return words;
  for (size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.')) {
    words.push_back(key.substr(0, dot));
    key.remove_prefix(dot + 1);
  }
  words.push_back(key);
  return words;
}

/// By a table of (pattern words, key words), so that no pattern takes long.
bool naive_match(std::string_view pattern, std::string_view key) {
  const auto p = words_of(pattern);
  const auto k = words_of(key);
  std::vector<bool> reached(k.size() + 1, false);
  reached[0] = true;
  for (const std::string_view word : p) {
    std::vector<bool> next(k.size() + 1, false);
    for (size_t j = 0; j <= k.size(); ++j) {
      if (word == "#") {
        next[j] = reached[j] || (j > 0 && next[j - 1]);
      } else {
        next[j] = j > 0 && reached[j - 1] && (word == "*" || word == k[j - 1]);
      }
    }
    reached = next;
  }
  return reached[k.size()];
}

}  // namespace

/// Lines: the first is the routing key, each other one a pattern; one that begins with `-` is
/// unbound again at the end.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 2000) return 0;
  std::vector<std::string_view> lines;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    lines.push_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  lines.push_back(rest);
  ExchangeSpec spec;
  spec.type = ExchangeType::topic;
  auto made = Exchange::create(spec);
  FUZZ_CHECK(made.has_value());
  auto exchange = std::move(*made);
  auto bind_or_not = [&](bool bind, uint64_t id, std::string_view pattern) {
    const auto to = Destination::to_queue(QueueId(id), "q");
    if (bind) FUZZ_CHECK(*exchange->bind(to, pattern, {}));
    if (!bind) FUZZ_CHECK(exchange->unbind(to, pattern, {}));
  };
  for (size_t i = 1; i < lines.size(); ++i) bind_or_not(true, i, lines[i]);
  for (int round = 0; round < 2; ++round) {
    RouteMatches out;
    exchange->match(lines[0], {}, out);
    std::vector<QueueId> expected;
    for (size_t i = 1; i < lines.size(); ++i) {
      if (round == 1 && lines[i].starts_with("-")) continue;
      if (naive_match(lines[i], lines[0])) expected.push_back(QueueId(i));
    }
    FUZZ_CHECK(out.queues == expected);
    if (round == 1) break;
    for (size_t i = 1; i < lines.size(); ++i) {
      if (lines[i].starts_with("-")) bind_or_not(false, i, lines[i]);
    }
  }
  return 0;
}

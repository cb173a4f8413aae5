#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tarrymq/broker/management.h"
#include "tarrymq/queue/queue_settings.h"

namespace re2 {
class RE2;
}

namespace tarry {

/// A regular expression, unanchored; never matches when `text` is empty (permissions: nothing is
/// allowed).
class Pattern {
 public:
  Pattern() = default;
  /// The error is RE2's own word.
  static Result<Pattern, std::string> compile(const std::string& text);
  bool matches(std::string_view name) const;
  /// An expression that matches just this text.
  static std::string literal(const std::string& text);

 private:
  std::shared_ptr<const re2::RE2> re_;
  bool everything_ = false;
};

struct Policy {
  PolicyInfo info;
  Pattern pattern;
};
/// By name, of one vhost.
using PolicySet = std::map<std::string, Policy, std::less<>>;

/// Checks pattern, apply-to and every key (retry-spec 7). Errors: 400 with the reason to show.
Result<Policy, PeerError> check_policy(PolicyInfo info, bool operator_policy);
/// Takes the keys out that check_policy would refuse because of what they are; their names. For
/// imported definitions.
std::vector<std::string> remove_unknown_keys(PolicyInfo& info, bool operator_policy);

enum class PolicyTarget : uint8_t { exchange, classic_queue, quorum_queue };
/// The policy that rules an object: the highest priority that matches, then the first by name. Null
/// if none does.
const Policy* ruling_policy(const PolicySet& policies, std::string_view name, PolicyTarget target);

/// Both definitions in one: the operator's numbers win where they are lower, its texts always.
FieldTable merge_definitions(const Policy* policy, const Policy* operator_policy);
/// Arguments and policies together: numbers: the lower wins; dead-letter exchange and key,
/// overflow: the argument wins. The default delivery limit is filled in where retries are on and
/// nobody said one (retry-spec 7).
QueueSettings effective_settings(const QueueSettings& declared, bool overflow_declared,
                                 bool retry_enabled, const FieldTable& definition);

}  // namespace tarry

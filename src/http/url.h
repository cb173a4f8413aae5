#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tarry::http {

/// Percent-decodes `text`; none if a percent sign is not followed by two hex digits.
/// `plus_is_space`: as in a query.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space);
/// Everything but RFC 3986's unreserved characters becomes %XX.
std::string percent_encode(std::string_view text);

using QueryPairs = std::vector<std::pair<std::string, std::string>>;

/// A request target taken apart. The path is split at its slashes first and then decoded, so a
/// segment may hold any character, slashes included ("%2F" is the vhost "/"), and ".." is a name
/// like any other.
struct Target {
  std::vector<std::string>
      segments;  // "/api/queues/%2F/a" gives api, queues, /, a; one trailing slash is ignored
  QueryPairs query;

  /// None when it does not begin with "/" or a percent sign is misplaced.
  static std::optional<Target> parse(std::string_view target);
};

/// base64 with padding. decode: none on any other character (line breaks are skipped).
std::string base64_encode(std::string_view bytes);
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace tarry::http

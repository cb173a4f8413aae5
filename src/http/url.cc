#include "http/url.h"

#include <array>

namespace tarry::http {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<signed char, 256> base64_values() {
  std::array<signed char, 256> values{};
  for (auto& v : values) v = -1;
  for (size_t i = 0; i < kBase64.size(); ++i) {
    values[static_cast<unsigned char>(kBase64[i])] = static_cast<signed char>(i);
  }
  return values;
}

bool parse_query(std::string_view text, QueryPairs& out) {
  while (!text.empty()) {
    const size_t end = text.find('&');
    const std::string_view pair = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    auto name = percent_decode(pair.substr(0, equals), true);
    auto value = percent_decode(
        equals == std::string_view::npos ? std::string_view{} : pair.substr(equals + 1), true);
    if (!name || !value) return false;
    out.emplace_back(std::move(*name), std::move(*value));
  }
  return true;
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out.push_back(static_cast<char>(high << 4 | low));
      i += 2;
    } else {
      out.push_back(plus_is_space && text[i] == '+' ? ' ' : text[i]);
    }
  }
  return out;
}

std::string percent_encode(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if ((u >= '0' && u <= '9') || (u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z') || u == '-' ||
        u == '.' || u == '_' || u == '~') {
      out.push_back(c);
    } else {
      out += {'%', kHex[u >> 4], kHex[u & 15]};
    }
  }
  return out;
}

std::optional<Target> Target::parse(std::string_view target) {
  if (target.empty() || target.front() != '/') return std::nullopt;
  Target out;
  target = target.substr(0, target.find('#'));
  const size_t question = target.find('?');
  std::string_view path =
      target.substr(1, question == std::string_view::npos ? question : question - 1);
  if (question != std::string_view::npos && !parse_query(target.substr(question + 1), out.query)) {
    return std::nullopt;
  }
  if (!path.empty() && path.back() == '/') path.remove_suffix(1);
  while (!path.empty()) {
    const size_t slash = path.find('/');
    auto segment = percent_decode(path.substr(0, slash), false);
    if (!segment) return std::nullopt;
    out.segments.push_back(std::move(*segment));
    if (slash == std::string_view::npos) break;
    path = path.substr(slash + 1);
  }
  return out;
}

std::string base64_encode(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k)
      out.push_back(k <= n ? kBase64[group >> (18 - 6 * k) & 63] : '=');
  }
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  static constexpr auto kValues = base64_values();
  std::string out;
  out.reserve(text.size() / 4 * 3);
  uint32_t group = 0;
  size_t have = 0, padding = 0;
  for (const char c : text) {
    if (c == '\r' || c == '\n') continue;
    if (c == '=') {
      ++padding;
      continue;
    }
    const int v = kValues[static_cast<unsigned char>(c)];
    if (v < 0 || padding > 0) return std::nullopt;
    group = group << 6 | static_cast<uint32_t>(v);
    if (++have == 4) {
      out +=
          {static_cast<char>(group >> 16), static_cast<char>(group >> 8), static_cast<char>(group)};
      group = 0, have = 0;
    }
  }
  if (have == 1 || padding > 2 || (padding > 0 && have + padding != 4)) return std::nullopt;
  if (have == 2) out.push_back(static_cast<char>(group >> 4));
  if (have == 3) out += {static_cast<char>(group >> 10), static_cast<char>(group >> 2)};
  return out;
}

}  // namespace tarry::http

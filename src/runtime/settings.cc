#include "tarrymq/runtime/settings.h"

#include <algorithm>
#include <charconv>

#include "tarrymq/runtime/networks.h"

namespace tarry {
namespace {

constexpr std::string_view kEnvironmentPrefix = "TARRYMQ_";

std::vector<std::string_view> split_choices(std::string_view choices) {
  std::vector<std::string_view> words;
  while (!choices.empty()) {
    size_t bar = std::min(choices.find('|'), choices.size());
    words.push_back(choices.substr(0, bar));
    choices.remove_prefix(std::min(bar + 1, choices.size()));
  }
  return words;
}

// Levenshtein: single-character edits that turn one into the other.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

/// The name that was probably meant; "" if none is near.
std::string_view nearest_name(std::string_view name) {
  std::string_view nearest;
  size_t edits = std::max<size_t>(2, name.size() / 3) + 1;  // more than that is another word
  for (const SettingRow& row : setting_rows()) {
    const size_t distance = edit_distance(row.name, name);
    if (distance < edits) nearest = row.name, edits = distance;
  }
  return nearest;
}

const SettingRow* find_row(std::string_view name) {
  for (const auto& row : setting_rows()) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

bool apply(const SettingRow& row, std::string_view value, Settings& settings) {
  if (auto* number = std::get_if<uint64_t Settings::*>(&row.field)) {
    uint64_t parsed = 0;
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error != std::errc() || end != value.data() + value.size()) return false;
    if (parsed < row.min || parsed > row.max) return false;
    settings.*(*number) = parsed;
    return true;
  }
  if (auto* flag = std::get_if<bool Settings::*>(&row.field)) {
    settings.*(*flag) = value == "true";
    return value == "true" || value == "false";
  }
  if (!row.choices.empty()) {
    auto words = split_choices(row.choices);
    if (std::find(words.begin(), words.end(), value) == words.end()) return false;
  } else if (value.empty() && !row.may_be_empty) {
    return false;
  }
  settings.*(std::get<std::string Settings::*>(row.field)) = value;
  return true;
}

std::string bad_value(const SettingRow& row, std::string_view value, std::string_view source) {
  std::string line = "bad setting " + std::string(row.name) + " = \"" + std::string(value) +
                     "\" (from " + std::string(source) + "): must be " + setting_allowed(row);
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 0x20; }, '?');
  return line;
}

std::string unknown_name(std::string_view name, std::string_view source) {
  const std::string_view nearest = nearest_name(name);
  return "unknown setting " + std::string(name) + " (from " + std::string(source) + "): " +
         (nearest.empty() ? "tarrymq --print-config shows all there are"
                          : "did you mean " + std::string(nearest) + "?");
}

std::string clashing_ports(const Settings& s) {
  struct Port {
    std::string_view name;
    uint64_t number;
  };
  const Port ports[] = {{"amqp_port", s.amqp_port},
                        {"amqps_port", s.amqps_port},
                        {"http_port", s.http_port},
                        {"https_port", s.https_port},
                        {"metrics_port", s.metrics_port}};
  for (size_t i = 0; i < std::size(ports); ++i) {
    for (size_t j = i + 1; j < std::size(ports); ++j) {
      if (ports[i].number == 0 || ports[i].number != ports[j].number) continue;
      return "bad setting " + std::string(ports[j].name) + " = \"" +
             std::to_string(ports[j].number) + "\": must be another port than " +
             std::string(ports[i].name);
    }
  }
  return {};
}

std::string networks_fault(const char* name, const std::string& value) {
  const auto networks = Networks::parse(value);
  if (networks) return {};
  return "bad setting " + std::string(name) + " = \"" + value + "\": " + networks.error() +
         "; allowed are addresses and networks (as 10.0.0.0/8) with commas between them";
}

/// What is wrong with settings that are right one by one.
std::string wrong_together(const Settings& s) {
  if (auto line = clashing_ports(s); !line.empty()) return line;
  const char* listener = s.amqps_port != 0   ? "amqps_port"
                         : s.https_port != 0 ? "https_port"
                                             : nullptr;
  if (listener != nullptr && (s.tls_cert.empty() || s.tls_key.empty())) {
    return "bad setting " + std::string(s.tls_cert.empty() ? "tls_cert" : "tls_key") +
           " = \"\": " + listener + " needs a certificate and its key (PEM files)";
  }
  if (s.amqps_port != 0 && s.tls_verify != "none" && s.tls_ca.empty()) {
    return "bad setting tls_ca = \"\": tls_verify = \"" + s.tls_verify +
           "\" needs to know who may sign (a PEM file)";
  }
  if (s.amqps_port != 0 && s.tls_verify == "none" && s.tls_user_from != "none") {
    return "bad setting tls_user_from = \"" + s.tls_user_from +
           "\": with tls_verify = \"none\" no client is asked for a certificate; it needs peer or "
           "required";
  }
  const std::string error =
      networks_fault("proxy_protocol_trusted_sources", s.proxy_protocol_trusted_sources);
  return !error.empty() ? error
                        : networks_fault("http_proxy_protocol_trusted_sources",
                                         s.http_proxy_protocol_trusted_sources);
}

}  // namespace

std::string setting_flag(const SettingRow& row) {
  std::string flag(row.name);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::string setting_environment_name(const SettingRow& row) {
  std::string name(kEnvironmentPrefix);
  for (unsigned char c : row.name)
    name += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return name;
}

std::string setting_allowed(const SettingRow& row) {
  if (std::holds_alternative<uint64_t Settings::*>(row.field)) {
    return "a whole number " + std::to_string(row.min) + ".." + std::to_string(row.max);
  }
  if (std::holds_alternative<bool Settings::*>(row.field)) return "true or false";
  if (row.choices.empty()) return row.may_be_empty ? "any text" : "a text that is not empty";
  std::string allowed = "one of ";
  for (auto word : split_choices(row.choices)) {
    if (!allowed.ends_with(" ")) allowed += ", ";
    allowed += word;
  }
  return allowed;
}

Result<Settings, SettingError> resolve_settings(std::span<const SettingLayer> layers) {
  Settings settings{};
  for (const auto& row : setting_rows()) {
    if (!apply(row, row.default_text, settings)) {
      return SettingError{bad_value(row, row.default_text, "the defaults")};
    }
  }
  for (const auto& layer : layers) {
    for (const auto& [name, value] : layer.values) {
      const SettingRow* row = find_row(name);
      if (!row) return SettingError{unknown_name(name, layer.source)};
      if (!apply(*row, value, settings)) return SettingError{bad_value(*row, value, layer.source)};
    }
  }
  if (auto line = wrong_together(settings); !line.empty()) return SettingError{line};
  return settings;
}

SettingLayer read_settings_environment(const char* const* environment,
                                       std::vector<std::string>& unknown) {
  SettingLayer layer{"the environment", {}};
  for (; environment && *environment; ++environment) {
    std::string_view entry(*environment);
    if (!entry.starts_with(kEnvironmentPrefix)) continue;
    size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    std::string name;
    for (unsigned char c :
         entry.substr(kEnvironmentPrefix.size(), equals - kEnvironmentPrefix.size())) {
      name += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    if (find_row(name)) {
      layer.values.emplace_back(std::move(name), entry.substr(equals + 1));
    } else {
      unknown.emplace_back(entry.substr(0, equals));
    }
  }
  return layer;
}

std::vector<std::string_view> changed_until_restart(const Settings& running, const Settings& read) {
  std::vector<std::string_view> names;
  for (const SettingRow& row : setting_rows()) {
    const bool differs =
        std::visit([&](auto field) { return running.*field != read.*field; }, row.field);
    if (differs && row.needs_restart) names.push_back(row.name);
  }
  return names;
}

}  // namespace tarry

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "runtime/toml_library.h"
#include "tarrymq/runtime/settings.h"

namespace tarry {
namespace {

std::optional<toml::parse_result> parse_toml(std::string_view text, std::string_view source) {
  try {
    return toml::parse(text, source);
  } catch (const ImpossibleToml&) {
    return std::nullopt;
  }
}

/// Whether the text that stands for another type would be taken as the value.
bool takes_any_text(std::string_view name) {
  const auto rows = setting_rows();
  return std::any_of(rows.begin(), rows.end(), [name](const SettingRow& row) {
    return row.name == name && row.choices.empty() &&
           std::holds_alternative<std::string Settings::*>(row.field);
  });
}

}  // namespace

Result<SettingLayer, SettingError> read_settings_toml(std::string_view toml, std::string source) {
  std::optional<toml::parse_result> maybe = parse_toml(toml, source);
  if (!maybe) {
    return SettingError{"bad file " + source + ": not TOML, by a malformed date or time, it seems"};
  }
  toml::parse_result& parsed = *maybe;
  if (!parsed) {
    const auto& at = parsed.error().source().begin;
    return SettingError{"bad file " + source + ", line " + std::to_string(at.line) + ", column " +
                        std::to_string(at.column) + ": " +
                        std::string(parsed.error().description())};
  }
  SettingLayer layer{source, {}};
  for (auto&& [key, node] : parsed.table()) {
    std::string name(key.str());
    if (auto text = node.value_exact<std::string>()) {
      layer.values.emplace_back(name, *text);
    } else if (auto number = node.value_exact<int64_t>()) {
      layer.values.emplace_back(name, std::to_string(*number));
    } else if (auto flag = node.value_exact<bool>()) {
      layer.values.emplace_back(name, *flag ? "true" : "false");
    } else if (!node.is_value()) {
      // No setting is of such a type; an unknown table or list is first of all an unknown name. The
      // library's own text for them breaks the language's rules at an infinity within.
      const char* shown = node.is_array() ? "[...]" : "{...}";
      if (takes_any_text(name)) {
        return SettingError{"bad setting " + name + " = " + shown + " (from " + source + ", line " +
                            std::to_string(node.source().begin.line) + "): must be a text"};
      }
      layer.values.emplace_back(name, shown);
    } else {
      std::ostringstream value;
      node.visit([&](const auto& shown) { value << shown; });
      layer.values.emplace_back(name, value.str());
    }
  }
  return layer;
}

Result<SettingLayer, SettingError> read_settings_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return SettingError{"cannot read the settings file " + path};
  }
  return read_settings_toml(text.str(), path);
}

std::string render_settings_toml() {
  std::string out =
      "# Every setting of TarryMQ with its default. Read with: tarrymq --config FILE\n"
      "# A flag goes over the environment, the environment over this file, this file over the "
      "default.\n"
      "# Written by: tarrymq --print-config\n";
  for (const auto& row : setting_rows()) {
    bool quoted = std::holds_alternative<std::string Settings::*>(row.field);
    out += "\n# " + std::string(row.text) + "\n# " + setting_allowed(row);
    if (!row.unit.empty()) out += ", " + std::string(row.unit);
    out += row.needs_restart ? "; read at the start" : "; read again at SIGHUP";
    out += ". --" + setting_flag(row) + ", " + setting_environment_name(row) + "\n";
    std::string quote = quoted ? "\"" : "";
    out += std::string(row.name) + " = " + quote + std::string(row.default_text) + quote + "\n";
  }
  return out;
}

}  // namespace tarry

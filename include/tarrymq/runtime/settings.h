#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tarrymq/runtime/result.h"

namespace tarry {

/// What an operator can set, checked and complete. Made by resolve_settings(); immutable afterwards
/// but for what the table marks as reloadable. The texts, units, defaults and bounds are in
/// setting_rows().
struct Settings {
  std::string data_dir, bind, log_level, log_levels, log_format, log_file, durability, default_user,
      default_password;
  std::string load_definitions, proxy_protocol_trusted_sources, http_proxy_protocol_trusted_sources;
  std::string tls_cert, tls_key, tls_ca, tls_sni_dir, tls_min_version, tls_ciphers,
      tls_ciphersuites, tls_verify, tls_user_from;
  uint64_t amqp_port, amqps_port, http_port, https_port, metrics_port, workers;
  uint64_t connections_max, frame_max, channel_max, heartbeat_s, max_message_bytes,
      handshake_timeout_ms;
  uint64_t outbound_high_bytes, tail_memory_bytes, memory_limit_bytes, disk_free_min_bytes;
  uint64_t goodbye_timeout_ms, shutdown_timeout_ms, login_failure_delay_ms,
      login_failures_per_minute, https_hsts_s;
  bool default_user_loopback_only;
};

/// The declaration of one setting; all else (flags, TOML keys, environment names, `--help`, the
/// check of config/tarrymq.toml) is derived from it.
struct SettingRow {
  std::string_view
      name;  // as in the file; `--data-dir` as a flag, `TARRYMQ_DATA_DIR` in the environment
  std::string_view unit;  // "" where there is none
  std::string_view text;  // one sentence or two
  std::variant<uint64_t Settings::*, std::string Settings::*, bool Settings::*> field;
  std::string_view default_text;
  uint64_t min = 0, max = 0;      // of numbers, both allowed
  std::string_view choices = "";  // of words: "a|b|c"; "" means any text
  bool needs_restart = true;      // false: SIGHUP is enough
  bool may_be_empty = false;      // of free texts
};
std::span<const SettingRow> setting_rows();
/// `data_dir` -> `data-dir` and `TARRYMQ_DATA_DIR`.
std::string setting_flag(const SettingRow& row);
std::string setting_environment_name(const SettingRow& row);
/// "whole number 0..65535", "one of fsync, os": for error texts, help and the file.
std::string setting_allowed(const SettingRow& row);

/// One line that names the setting, its value, what is allowed and where it came from.
struct SettingError {
  std::string line;
};

/// Names (as in SettingRow::name) and texts from one source.
struct SettingLayer {
  std::string source;  // for the error line: "the command line", "tarrymq.toml"
  std::vector<std::pair<std::string, std::string>> values;
};

/// Defaults, then each layer over those before it: file, environment, flags. Errors: an unknown
/// name (with the nearest known one), a bad value, two listeners on one port, a listener with TLS
/// without a certificate.
Result<Settings, SettingError> resolve_settings(std::span<const SettingLayer> layers);

/// Names of those that differ and are read at the start alone, for who asks for a reload.
std::vector<std::string_view> changed_until_restart(const Settings& running, const Settings& read);

/// The layer of a TOML text: top-level keys only. `source` is its file name. Errors: not TOML (with
/// line and column), a key whose value is neither number, word nor text.
Result<SettingLayer, SettingError> read_settings_toml(std::string_view toml, std::string source);
/// The same from a file. Errors: also when it can't be read.
Result<SettingLayer, SettingError> read_settings_file(const std::string& path);
/// The commented file with every setting at its default: config/tarrymq.toml is this text (a test
/// compares them).
std::string render_settings_toml();
/// The settings among the TARRYMQ_* of `environment` (as in `environ`, null-terminated). Other
/// TARRYMQ_ names go to `unknown`: to warn of, not to stop for, since container platforms make up
/// such names after a service's own.
SettingLayer read_settings_environment(const char* const* environment,
                                       std::vector<std::string>& unknown);

}  // namespace tarry

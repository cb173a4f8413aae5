#include "broker/definition_codec.h"

#include <array>
#include <initializer_list>

namespace tarry::definition {
namespace {

constexpr std::array<std::string_view, 12> kKindNames = {
    "vhost",           "user",      "permission", "exchange",         "queue",  "binding", "policy",
    "operator_policy", "parameter", "tombstone",  "topic_permission", "redrive"};
constexpr char kVersion = 1;

std::string make_key(Kind kind, std::initializer_list<std::string_view> parts) {
  std::string key(kKindNames[static_cast<size_t>(kind)]);
  key.push_back('\0');
  for (std::string_view part : parts) {
    std::byte size[4];
    store_be(size, static_cast<uint32_t>(part.size()));
    key.append(reinterpret_cast<const char*>(size), sizeof size);
    key.append(part);
  }
  return key;
}

std::string make_value(const FieldTable& table) {
  std::string out(1, kVersion);
  table.encode(out);
  return out;
}

std::string text_of(const FieldTable& table, std::string_view name) {
  const FieldValue* value = table.find(name);
  return value && value->text() ? *value->text() : std::string();
}

bool flag_of(const FieldTable& table, std::string_view name) {
  const FieldValue* value = table.find(name);
  return value && value->boolean().value_or(false);
}

int64_t number_of(const FieldTable& table, std::string_view name) {
  const FieldValue* value = table.find(name);
  return value ? value->integer().value_or(0) : 0;
}

FieldValue texts_value(const std::vector<std::string>& texts) {
  FieldArray array;
  for (const std::string& text : texts) array.push_back(FieldValue::text(text));
  return FieldValue::array(std::move(array));
}

std::vector<std::string> texts_of(const FieldTable& table, std::string_view name) {
  std::vector<std::string> out;
  const FieldValue* value = table.find(name);
  if (!value || !value->array()) return out;
  for (const FieldValue& text : *value->array()) {
    if (text.text()) out.push_back(*text.text());
  }
  return out;
}

FieldValue limits_value(const std::map<std::string, int64_t>& limits) {
  FieldTable t;
  for (const auto& [name, limit] : limits) t.set(name, FieldValue::int64(limit));
  return FieldValue::table(std::move(t));
}

constexpr std::array<std::pair<const char*, std::optional<uint64_t> RetryOverride::*>, 6>
    kOverrideEntries{{
        {"min", &RetryOverride::min_ms},
        {"multiplier", &RetryOverride::multiplier},
        {"max", &RetryOverride::max_ms},
        {"limit", &RetryOverride::limit},
        {"jitter", &RetryOverride::jitter_percent},
        {"max_age", &RetryOverride::max_age_ms},
    }};

FieldTable override_table(const RetryOverride& changes) {
  FieldTable t;
  for (const auto& [name, value] : kOverrideEntries) {
    if (changes.*value) t.set(name, FieldValue::int64(static_cast<int64_t>(*(changes.*value))));
  }
  return t;
}

FieldTable table_of(const FieldTable& table, std::string_view name) {
  const FieldValue* value = table.find(name);
  return value && value->table() ? *value->table() : FieldTable();
}

std::map<std::string, int64_t> limits_of(const FieldTable& table) {
  std::map<std::string, int64_t> out;
  for (const auto& [name, value] : table_of(table, "limits").entries)
    out[name] = value.integer().value_or(-1);
  return out;
}

}  // namespace

std::string vhost_key(std::string_view vhost) { return make_key(Kind::vhost, {vhost}); }
std::string user_key(std::string_view user) { return make_key(Kind::user, {user}); }
std::string permission_key(std::string_view vhost, std::string_view user) {
  return make_key(Kind::permission, {vhost, user});
}
std::string topic_permission_key(std::string_view vhost, std::string_view user,
                                 std::string_view exchange) {
  return make_key(Kind::topic_permission, {vhost, user, exchange});
}
std::string exchange_key(std::string_view vhost, std::string_view name) {
  return make_key(Kind::exchange, {vhost, name});
}
std::string queue_key(std::string_view vhost, std::string_view name) {
  return make_key(Kind::queue, {vhost, name});
}
std::string binding_key(std::string_view vhost, std::string_view source, const Destination& to,
                        std::string_view key, const FieldTable& arguments) {
  return make_key(Kind::binding,
                  {vhost, source, to.is_queue() ? "q" : "e", to.name, key, arguments.encode()});
}
std::string policy_key(std::string_view vhost, std::string_view name, bool operator_policy) {
  return make_key(operator_policy ? Kind::operator_policy : Kind::policy, {vhost, name});
}
std::string parameter_key(std::string_view component, std::string_view vhost,
                          std::string_view name) {
  return make_key(Kind::parameter, {component, vhost, name});
}
std::string tombstone_key(QueueId id) {
  return make_key(Kind::tombstone, {std::to_string(id.value)});
}

std::optional<Parsed> parse_key(std::string_view key) {
  size_t zero = key.find('\0');
  if (zero == std::string_view::npos) return std::nullopt;
  Parsed parsed{};
  size_t kind = 0;
  while (kind < kKindNames.size() && kKindNames[kind] != key.substr(0, zero)) ++kind;
  if (kind == kKindNames.size()) return std::nullopt;
  parsed.kind = static_cast<Kind>(kind);
  std::string_view rest = key.substr(zero + 1);
  while (!rest.empty()) {
    if (rest.size() < 4) return std::nullopt;
    auto size = load_be<uint32_t>(reinterpret_cast<const std::byte*>(rest.data()));
    if (rest.size() - 4 < size) return std::nullopt;
    parsed.parts.emplace_back(rest.substr(4, size));
    rest.remove_prefix(4 + size);
  }
  static constexpr std::array<size_t, 12> kParts = {1, 1, 2, 2, 2, 6, 2, 2, 3, 1, 3, 1};
  if (parsed.parts.size() != kParts[kind]) return std::nullopt;
  return parsed;
}

std::string vhost_value(const Vhost& vhost) {
  FieldTable t;
  const VhostInfo& about = vhost.about;
  t.set("description", FieldValue::text(about.description));
  t.set("tags", texts_value(about.tags));
  t.set("default_queue_type", FieldValue::text(about.default_queue_type));
  t.set("protected", FieldValue::boolean(about.protected_from_deletion));
  t.set("limits", limits_value(about.limits));
  return make_value(t);
}

std::string user_value(const UserInfo& user) {
  FieldTable t;
  t.set("password_hash", FieldValue::text(user.password_hash));
  t.set("hashing_algorithm", FieldValue::text(user.hashing_algorithm));
  t.set("tags", texts_value(user.tags));
  t.set("limits", limits_value(user.limits));
  return make_value(t);
}

std::string permission_value(const PermissionInfo& permission) {
  FieldTable t;
  t.set("configure", FieldValue::text(permission.configure));
  t.set("write", FieldValue::text(permission.write));
  t.set("read", FieldValue::text(permission.read));
  return make_value(t);
}

std::string topic_permission_value(const TopicPermissionInfo& permission) {
  FieldTable t;
  t.set("write", FieldValue::text(permission.write));
  t.set("read", FieldValue::text(permission.read));
  return make_value(t);
}

std::string exchange_value(const ExchangeSpec& spec) {
  FieldTable t;
  t.set("type", FieldValue::text(std::string(exchange_type_name(spec.type))));
  t.set("auto_delete", FieldValue::boolean(spec.auto_delete));
  t.set("internal", FieldValue::boolean(spec.internal));
  t.set("arguments", FieldValue::table(spec.arguments));
  return make_value(t);
}

std::string queue_value(const QueueEntry& entry) {
  FieldTable t;
  t.set("id", FieldValue::int64(static_cast<int64_t>(entry.handle->id.value)));
  t.set("auto_delete", FieldValue::boolean(entry.identity().auto_delete));
  t.set("arguments", FieldValue::table(entry.arguments));
  if (!entry.retry_override.empty())
    t.set("retry_override", FieldValue::table(override_table(entry.retry_override)));
  return make_value(t);
}

std::string binding_value(const BindingSpec& binding) {
  FieldTable t;
  t.set("source", FieldValue::text(binding.source));
  t.set("destination", FieldValue::text(binding.destination));
  t.set("destination_is_queue", FieldValue::boolean(binding.destination_is_queue));
  t.set("routing_key", FieldValue::text(binding.routing_key));
  t.set("arguments", FieldValue::table(binding.arguments));
  return make_value(t);
}

std::string policy_value(const PolicyInfo& policy) {
  FieldTable t;
  t.set("pattern", FieldValue::text(policy.pattern));
  t.set("apply_to", FieldValue::text(policy.apply_to));
  t.set("priority", FieldValue::int64(policy.priority));
  t.set("definition", FieldValue::table(policy.definition));
  return make_value(t);
}

std::string parameter_value(const ParameterInfo& parameter) {
  FieldTable t;
  t.set("value", FieldValue::text(parameter.value_json));
  return make_value(t);
}

std::string tombstone_value() { return make_value({}); }

std::string redrive_key(uint64_t id) { return make_key(Kind::redrive, {std::to_string(id)}); }
std::string redrive_value(const FieldTable& table) { return make_value(table); }

Result<FieldTable, std::string> open_value(std::string_view value) {
  if (value.empty() || value[0] != kVersion)
    return std::string("a definition of another format version");
  return FieldTable::decode(as_bytes(value.substr(1)));
}

VhostInfo vhost_from(const std::string& name, const FieldTable& table) {
  VhostInfo info;
  info.name = name;
  info.description = text_of(table, "description");
  info.tags = texts_of(table, "tags");
  info.default_queue_type = text_of(table, "default_queue_type");
  info.protected_from_deletion = flag_of(table, "protected");
  info.limits = limits_of(table);
  return info;
}

TopicPermissionInfo topic_permission_from(const std::vector<std::string>& parts,
                                          const FieldTable& table) {
  return {parts[1], parts[0], parts[2], text_of(table, "write"), text_of(table, "read")};
}

UserInfo user_from(const std::string& name, const FieldTable& table) {
  UserInfo user;
  user.name = name;
  user.password_hash = text_of(table, "password_hash");
  user.hashing_algorithm = text_of(table, "hashing_algorithm");
  user.tags = texts_of(table, "tags");
  user.limits = limits_of(table);
  return user;
}

PermissionInfo permission_from(const std::string& vhost, const std::string& user,
                               const FieldTable& table) {
  return {user, vhost, text_of(table, "configure"), text_of(table, "write"),
          text_of(table, "read")};
}

ExchangeDeclare exchange_from(const std::string& name, const FieldTable& table) {
  ExchangeDeclare declare;
  declare.name = name;
  declare.type = text_of(table, "type");
  declare.durable = true;
  declare.auto_delete = flag_of(table, "auto_delete");
  declare.internal = flag_of(table, "internal");
  declare.arguments = table_of(table, "arguments");
  return declare;
}

StoredQueue queue_from(const std::string& name, const FieldTable& table) {
  StoredQueue stored;
  stored.id = QueueId{static_cast<uint64_t>(number_of(table, "id"))};
  stored.declare.name = name;
  stored.declare.durable = true;
  stored.declare.auto_delete = flag_of(table, "auto_delete");
  stored.declare.arguments = table_of(table, "arguments");
  const FieldTable changes = table_of(table, "retry_override");
  for (const auto& [key, value] : kOverrideEntries) {
    const FieldValue* number = changes.find(key);
    if (number && number->integer())
      stored.retry_override.*value = static_cast<uint64_t>(*number->integer());
  }
  return stored;
}

BindingSpec binding_from(const FieldTable& table) {
  BindingSpec binding;
  binding.source = text_of(table, "source");
  binding.destination = text_of(table, "destination");
  binding.destination_is_queue = flag_of(table, "destination_is_queue");
  binding.routing_key = text_of(table, "routing_key");
  binding.arguments = table_of(table, "arguments");
  return binding;
}

PolicyInfo policy_from(const std::string& vhost, const std::string& name, const FieldTable& table) {
  PolicyInfo policy;
  policy.vhost = vhost;
  policy.name = name;
  policy.pattern = text_of(table, "pattern");
  policy.apply_to = text_of(table, "apply_to");
  policy.priority = number_of(table, "priority");
  policy.definition = table_of(table, "definition");
  return policy;
}

ParameterInfo parameter_from(const std::vector<std::string>& parts, const FieldTable& table) {
  return {parts[0], parts[1], parts[2], text_of(table, "value")};
}

}  // namespace tarry::definition

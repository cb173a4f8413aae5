#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "broker/registry.h"
#include "tarrymq/broker/management.h"

namespace tarry {

/// The definitions as DefinitionStore keeps them. Key: the kind, a zero byte, then each part of the
/// name with its length (4 bytes, big-endian) in front, so that any byte may be in a name. Value:
/// one version byte (1), then an AMQP field table. Unknown entries of a table are ignored, so that
/// a later version may add some.
namespace definition {

enum class Kind : uint8_t {
  vhost,
  user,
  permission,
  exchange,
  queue,
  binding,
  policy,
  operator_policy,
  parameter,
  tombstone,
  topic_permission,
  redrive
};

std::string vhost_key(std::string_view vhost);
std::string user_key(std::string_view user);
std::string permission_key(std::string_view vhost, std::string_view user);
std::string topic_permission_key(std::string_view vhost, std::string_view user,
                                 std::string_view exchange);
std::string exchange_key(std::string_view vhost, std::string_view name);
std::string queue_key(std::string_view vhost, std::string_view name);
std::string binding_key(std::string_view vhost, std::string_view source, const Destination& to,
                        std::string_view key, const FieldTable& arguments);
std::string policy_key(std::string_view vhost, std::string_view name, bool operator_policy);
std::string parameter_key(std::string_view component, std::string_view vhost,
                          std::string_view name);
/// The queue with this id was deleted; its directory may still be there.
std::string tombstone_key(QueueId id);

struct Parsed {
  Kind kind;
  std::vector<std::string> parts;
};
/// None: no key of ours.
std::optional<Parsed> parse_key(std::string_view key);

std::string vhost_value(const Vhost& vhost);
std::string user_value(const UserInfo& user);
std::string permission_value(const PermissionInfo& permission);
std::string topic_permission_value(const TopicPermissionInfo& permission);
std::string exchange_value(const ExchangeSpec& spec);
std::string queue_value(const QueueEntry& entry);
std::string binding_value(const BindingSpec& binding);
std::string policy_value(const PolicyInfo& policy);
std::string parameter_value(const ParameterInfo& parameter);
std::string tombstone_value();
/// What is in it is redrives.cc's.
std::string redrive_key(uint64_t id);
std::string redrive_value(const FieldTable& table);

struct StoredQueue {
  QueueId id;
  QueueDeclare declare;
  RetryOverride retry_override;
};
/// The table of a value. The error says what is wrong with it.
Result<FieldTable, std::string> open_value(std::string_view value);
VhostInfo vhost_from(const std::string& name, const FieldTable& table);
TopicPermissionInfo topic_permission_from(const std::vector<std::string>& parts,
                                          const FieldTable& table);
UserInfo user_from(const std::string& name, const FieldTable& table);
PermissionInfo permission_from(const std::string& vhost, const std::string& user,
                               const FieldTable& table);
ExchangeDeclare exchange_from(const std::string& name, const FieldTable& table);
StoredQueue queue_from(const std::string& name, const FieldTable& table);
BindingSpec binding_from(const FieldTable& table);
PolicyInfo policy_from(const std::string& vhost, const std::string& name, const FieldTable& table);
ParameterInfo parameter_from(const std::vector<std::string>& parts, const FieldTable& table);

}  // namespace definition
}  // namespace tarry

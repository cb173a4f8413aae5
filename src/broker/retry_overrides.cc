// The retry override of a live queue (retry-spec 36).
#include "broker/retry_overrides.h"

#include "broker/definition_codec.h"
#include "broker/management_face.h"
#include "broker/success.h"
#include "broker/wording.h"

namespace tarry {
namespace {

PeerError no_retries(std::string_view queue, const std::string& vhost) {
  return PeerError::soft(
      400, queue_named(std::string(queue), vhost) +
               " has no retries: only one declared with x-delayed-retry-min can have an override");
}

/// Under the registry's lock.
Result<std::shared_ptr<QueueEntry>, PeerError> find_retry_queue(const Vhost& vhost,
                                                                std::string_view queue) {
  if (is_companion_name(queue)) {  // listed like any queue, so "no queue" would not be true
    return PeerError::soft(400, queue_named(std::string(queue), vhost.name) +
                                    " is internal: the retry settings are those of queue '" +
                                    std::string(queue.substr(kCompanionPrefix.size())) + "'");
  }
  auto entry = vhost.find_queue(queue);
  if (!entry) return no_queue(queue, vhost.name);
  if (!entry->identity().retry_enabled) return no_retries(queue, vhost.name);
  return entry;
}

/// What the queue's settings are by now, so that of two changes the later one wins.
void apply_effective(Core& core, QueueHandle& handle) {
  std::lock_guard one_change(core.policy_mutex);
  QueueSettings settings;
  {
    std::shared_lock lock(core.registry.mutex);
    auto vhost = core.registry.find_vhost(handle.identity.vhost);
    auto entry = vhost ? vhost->find_queue(handle.identity.name) : nullptr;
    if (!entry || entry->handle.get() != &handle) return;  // it has ended meanwhile
    settings = core.registry.effective(entry->identity(), *entry);
  }
  handle.apply(std::move(settings));
}

}  // namespace

Result<RetryInfo, PeerError> ManagementFace::queue_retry(std::string_view vhost_name,
                                                         std::string_view queue) {
  std::shared_lock lock(core_.registry.mutex);
  auto vhost = core_.registry.find_vhost(vhost_name);
  if (!vhost) return PeerError::not_found("no vhost '" + std::string(vhost_name) + "'");
  auto entry = find_retry_queue(*vhost, queue);
  if (!entry) return entry.error();
  const QueueSettings effective = core_.registry.effective((*entry)->identity(), **entry);
  RetryInfo info;
  info.declared = (*entry)->declared.retry;
  info.declared_limit = (*entry)->declared.delivery_limit;
  const FieldValue* type = (*entry)->arguments.find("x-delayed-retry-type");
  if (type && type->text()) info.type = *type->text();
  info.changes = (*entry)->retry_override;
  info.effective = effective.retry;
  info.effective_limit = effective.delivery_limit.value_or(kDefaultDeliveryLimit);
  return info;
}

void change_retry_override(Core& core, const Login* login, const std::string& vhost_name,
                           const std::string& queue, const RetryOverride& changes,
                           Answer<void> answer) {
  std::unique_lock lock(core.registry.mutex);
  const auto refuse = [&](PeerError error) {
    lock.unlock();
    answer(std::move(error));
  };
  auto vhost = core.registry.find_vhost(vhost_name);
  if (!vhost) return refuse(PeerError::not_found("no vhost '" + vhost_name + "'"));
  auto found = find_retry_queue(*vhost, queue);
  if (!found) return refuse(found.error());
  if (auto right = Core::check_right(*vhost, login, Right::configure, "queue", queue); !right) {
    return refuse(right.error());
  }
  QueueEntry& entry = **found;
  entry.retry_override = changes;
  DefinitionBatch batch;
  if (entry.stored()) {
    batch.puts.emplace_back(definition::queue_key(vhost_name, queue),
                            definition::queue_value(entry));
  }
  core.commit(lock, std::move(batch), [&core, handle = entry.handle, answer] {
    apply_effective(core, *handle);
    answer({});
  });
}

void ManagementFace::put_retry_override(const Login& login, std::string vhost_name,
                                        std::string queue, RetryOverride changes,
                                        Answer<void> answer) {
  change_retry_override(core_, &login, vhost_name, queue, changes, std::move(answer));
}

}  // namespace tarry
